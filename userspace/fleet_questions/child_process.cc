#include "userspace/fleet_questions/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "userspace/base/exit_status.h"
#include "userspace/base/unique_fd.h"

namespace proftrace {
namespace {

constexpr int kCannotRun = 127;
constexpr int kLookMs = 100;  // the longest time until a stop is seen
constexpr size_t kMostErrors = 64 << 10;
constexpr size_t kReadBytes = 256 << 10;

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

[[noreturn]] void Become(char* const* arguments) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ}) signal(number, SIG_DFL);
  execv(arguments[0], arguments);
  _exit(kCannotRun);
}

int Wait(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Passes whole lines on, and keeps the begin of the next line.
class Lines {
 public:
  explicit Lines(const std::function<absl::Status(std::string_view)>& on_line)
      : on_line_(on_line) {}

  absl::Status Add(std::string_view bytes) {
    for (size_t end = 0; (end = bytes.find('\n')) != std::string_view::npos;) {
      rest_ += bytes.substr(0, end);
      bytes.remove_prefix(end + 1);
      absl::Status status = on_line_(rest_);
      rest_.clear();
      if (!status.ok()) return status;
    }
    rest_ += bytes;
    return absl::OkStatus();
  }
  absl::Status Finish() { return rest_.empty() ? absl::OkStatus() : on_line_(rest_); }

 private:
  const std::function<absl::Status(std::string_view)>& on_line_;
  std::string rest_;
};

// Reads both outputs until both are closed, or `stop` is set.
absl::Status ReadOutputs(int out, int errors, const std::atomic<bool>* stop, Lines* lines,
                         ChildEnd* end) {
  std::array<pollfd, 2> files = {{{out, POLLIN, 0}, {errors, POLLIN, 0}}};
  std::string buffer(kReadBytes, '\0');
  while (files[0].fd >= 0 || files[1].fd >= 0) {
    end->was_stopped = stop != nullptr && stop->load();
    if (end->was_stopped) return absl::OkStatus();
    if (poll(files.data(), files.size(), kLookMs) <= 0) continue;
    for (pollfd& file : files) {
      if (file.fd < 0 || file.revents == 0) continue;
      const ssize_t bytes = read(file.fd, buffer.data(), buffer.size());
      if (bytes < 0 && errno == EINTR) continue;
      if (bytes <= 0) {
        file.fd = -1;
        continue;
      }
      const std::string_view got(buffer.data(), static_cast<size_t>(bytes));
      if (file.fd == errors) {
        end->errors += got.substr(0, kMostErrors - end->errors.size());
        continue;
      }
      absl::Status status = lines->Add(got);
      if (!status.ok()) return status;
    }
  }
  return lines->Finish();
}

}  // namespace

absl::Status RunChild(const std::vector<std::string>& arguments, const std::atomic<bool>* stop,
                      const std::function<absl::Status(std::string_view line)>& on_line,
                      ChildEnd* end) {
  std::array<int, 2> out;
  std::array<int, 2> errors;
  if (pipe2(out.data(), O_CLOEXEC) != 0) return NoMoreDescriptors(errno);
  const UniqueFd out_end(out[0]);
  UniqueFd out_begin(out[1]);
  if (pipe2(errors.data(), O_CLOEXEC) != 0) return NoMoreDescriptors(errno);
  const UniqueFd errors_end(errors[0]);
  UniqueFd errors_begin(errors[1]);
  const std::vector<char*> pointers = Pointers(arguments);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return NoMoreProcesses(errno);
  if (pid == 0) {
    // The program gets its own process group, so that it can be ended with everything that it
    // starts, and ^C reaches this process alone.
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    const int nothing = open("/dev/null", O_RDONLY);
    if (getppid() != parent || dup2(nothing, STDIN_FILENO) < 0 || dup2(out[1], STDOUT_FILENO) < 0 ||
        dup2(errors[1], STDERR_FILENO) < 0) {
      _exit(kCannotRun);
    }
    Become(pointers.data());
  }
  setpgid(pid, pid);
  out_begin = UniqueFd();
  errors_begin = UniqueFd();
  Lines lines(on_line);
  absl::Status status = ReadOutputs(out_end.get(), errors_end.get(), stop, &lines, end);
  if (!status.ok() || end->was_stopped) kill(-pid, SIGTERM);
  end->exit_code = Wait(pid);
  return status;
}

absl::Status RunAtTerminal(const std::vector<std::string>& arguments, ChildEnd* end) {
  const std::vector<char*> pointers = Pointers(arguments);
  // ^C is meant for the program at the terminal, so that this process ignores it.
  struct sigaction ignored {};
  struct sigaction before {};
  ignored.sa_handler = SIG_IGN;
  sigaction(SIGINT, &ignored, &before);
  const pid_t pid = fork();
  if (pid < 0) return NoMoreProcesses(errno);
  if (pid == 0) Become(pointers.data());
  end->exit_code = Wait(pid);
  sigaction(SIGINT, &before, nullptr);
  return absl::OkStatus();
}

}  // namespace proftrace
