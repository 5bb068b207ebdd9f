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

// Ends the program when memory runs out, on whatever thread. The capture has all that was recorded,
// and the target is cleaned up in the same way as when this program is killed.
void OnOutOfMemory() {
  constexpr std::string_view kText =
      "proftrace: no more memory can be had (ulimit -v, a cgroup, or the machine's); 'proftrace "
      "report --salvage' shows what was recorded\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kText.data(), kText.size());
  _exit(kHostUnfit);
}

// Opens /dev/null for each standard stream that the caller has closed, in a mode that can be
// neither read nor written as that stream. Otherwise the first file that is opened would get the
// stream's number, and messages would be written into that file.
bool HoldStandardStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  // With SIGXFSZ ignored, a file that may not grow (RLIMIT_FSIZE) is a failed write, and does not
  // kill this program.
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
