#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

#include "userspace/base/exit_status.h"
#include "userspace/cli/command_line.h"
#include "userspace/cli/say.h"
#include "userspace/sandbox/rights.h"

namespace {

constexpr int kHostUnfit = static_cast<int>(proftrace::ExitCode::kHostUnfit);

// On any thread. What was recorded is in the capture, and the target is looked after as when we are
// killed.
void OnOutOfMemory() {
  constexpr std::string_view kText =
      "proftrace: no more memory can be had (ulimit -v, a cgroup, or the machine's); 'proftrace "
      "report --salvage' shows what was recorded\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kText.data(), kText.size());
  _exit(kHostUnfit);
}

// A standard stream that the caller has closed is taken by something that cannot be read, or
// written: else the first file that is opened had its number, and messages would be written into
// it.
bool HoldStandardStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  // A file that may not grow (RLIMIT_FSIZE) is an output that cannot be written, not our end.
  std::signal(SIGXFSZ, SIG_IGN);
  if (!HoldStandardStreams()) return kHostUnfit;
  std::set_new_handler(OnOutOfMemory);
  proftrace::RaiseCapabilities();
  try {
    return proftrace::RunCommandLine(argc, argv);
  } catch (const std::system_error& error) {
    const absl::Status status = proftrace::NoMoreProcesses(error.code().value());
    proftrace::Say("%s", std::string(status.message()).c_str());
    return kHostUnfit;
  } catch (const std::exception& error) {
    proftrace::Say("%s; this is a bug of proftrace: please report it", error.what());
    return static_cast<int>(proftrace::ExitCode::kBug);
  }
}
