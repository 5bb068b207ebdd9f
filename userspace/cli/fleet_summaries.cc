#include "userspace/cli/fleet_summaries.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "userspace/base/exit_status.h"
#include "userspace/base/shown_text.h"
#include "userspace/base/unique_fd.h"
#include "userspace/cli/say.h"
#include "userspace/wire/capture_writer.h"

namespace proftrace {
namespace {

constexpr int kLowSummaryPriority = 15;

// Starts this program to read the capture and to add its rows; -1 with errno. In a process group of
// its own: a ^C is for the recording. `path`: of the directory, for its messages.
pid_t SpawnSummary(int capture, int directory, const std::string& path) {
  // Above the numbers that they get there, so that none is closed by the other's coming.
  constexpr int kLeast = STDERR_FILENO + 3;
  const UniqueFd from(fcntl(capture, F_DUPFD_CLOEXEC, kLeast));
  const UniqueFd folder(fcntl(directory, F_DUPFD_CLOEXEC, kLeast));
  if (!from.valid() || !folder.valid()) return -1;
  constexpr int kCaptureThere = STDERR_FILENO + 1;
  constexpr int kFolderThere = STDERR_FILENO + 2;
  const std::string descriptors =
      std::to_string(kCaptureThere) + "," + std::to_string(kFolderThere);
  std::vector<std::string> arguments = {"proftrace", "fleet", "ingest",       "-",
                                        "-o",        path,    "--as-summary", descriptors};
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&files, from.get(), kCaptureThere);
  posix_spawn_file_actions_adddup2(&files, folder.get(), kFolderThere);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, "/proc/self/exe", &files, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    errno = error;
    return -1;
  }
  setpriority(PRIO_PROCESS, static_cast<id_t>(pid), kLowSummaryPriority);
  return pid;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FleetSummaries>> FleetSummaries::Begin(
    const std::string& directory) {
  absl::StatusOr<std::unique_ptr<FleetDirectory>> opened = FleetDirectory::OpenOrMake(directory);
  if (!opened.ok()) return opened.status();
  return std::unique_ptr<FleetSummaries>(new FleetSummaries(*std::move(opened)));
}

FleetSummaries::FleetSummaries(std::unique_ptr<FleetDirectory> directory)
    : directory_(std::move(directory)) {}

FleetSummaries::~FleetSummaries() { (void)Finish(); }

void FleetSummaries::Add(FlightDump window) {
  const std::lock_guard lock(mutex_);
  if (is_busy_ || !windows_.empty()) {
    Note(Fail(ExitCode::kOutputFailed,
              "the summary before it was not done yet; a shorter --flight-recorder, or a longer "
              "--fleet-every, is less work"));
    return;
  }
  // Not before: a command that is to be recorded is forked by a process of one thread.
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  windows_.push_back(std::move(window));
  changed_.notify_all();
}

void FleetSummaries::Note(const absl::Status& status) {
  if (status.ok()) return;
  const std::string message(status.message());
  if (told_.insert(message).second) {
    SayOverProgress("a summary was not written into %s, the recording goes on: %s",
                    ShownText(directory_->path()).c_str(), message.c_str());
  }
  if (status_.ok()) status_ = Told(status);
}

absl::Status FleetSummaries::Summarise(const FlightDump& window) {
  constexpr char kName[] = "the window of a summary";
  UniqueFd file = directory_->CreateScratch();
  if (!file.valid()) {
    return Fail(ExitCode::kOutputFailed, "it cannot be written: " + ErrnoText(errno));
  }
  const UniqueFd capture(fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
  if (!capture.valid()) return Fail(ExitCode::kOutputFailed, ErrnoText(errno));
  const absl::StatusOr<std::unique_ptr<CaptureWriter>> writer =
      CaptureWriter::Create(file.Release(), kName);
  if (!writer.ok()) return writer.status();
  if (absl::Status status = window.WriteTo(writer->get()); !status.ok()) return status;
  const pid_t pid = SpawnSummary(capture.get(), directory_->fd(), directory_->path());
  if (pid < 0) return Fail(ExitCode::kOutputFailed, ErrnoText(errno));
  int state = 0;
  while (waitpid(pid, &state, 0) < 0) {
    if (errno != EINTR) return Fail(ExitCode::kOutputFailed, ErrnoText(errno));
  }
  if (WIFEXITED(state) && WEXITSTATUS(state) == 0) return absl::OkStatus();
  if (!WIFEXITED(state)) return Fail(ExitCode::kOutputFailed, "the process that writes was killed");
  // It has said why.
  return Fail(static_cast<ExitCode>(WEXITSTATUS(state)), "the process that writes has failed");
}

void FleetSummaries::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !windows_.empty(); });
    if (windows_.empty()) return;
    const FlightDump window = std::move(windows_.front());
    windows_.pop_front();
    is_busy_ = true;
    lock.unlock();
    const absl::Status status = Summarise(window);
    lock.lock();
    is_busy_ = false;
    Note(status);
  }
}

absl::Status FleetSummaries::Finish() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  return status_;
}

}  // namespace proftrace
