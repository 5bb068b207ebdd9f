#include "userspace/cli/fleet_summaries.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "userspace/base/exit_status.h"
#include "userspace/base/shown_text.h"
#include "userspace/base/unique_fd.h"
#include "userspace/cli/background_self.h"
#include "userspace/cli/say.h"
#include "userspace/wire/capture_writer.h"

namespace proftrace {
namespace {

constexpr int kLowSummaryPriority = 15;

// Starts the process that adds the capture's rows to the directory. Returns its PID, or -1 with
// errno. `path`: the directory's path, for messages.
pid_t StartSummary(int capture, int directory, const std::string& path) {
  return StartSelfInBackground(
      {"fleet", "ingest", "-", "-o", path, "--as-summary", BackgroundDescriptorsText()},
      {capture, directory}, kLowSummaryPriority);
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
  // The thread is not started earlier, because the command to be recorded must be forked while the
  // process has one thread.
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
  const pid_t pid = StartSummary(capture.get(), directory_->fd(), directory_->path());
  if (pid < 0) return Fail(ExitCode::kOutputFailed, ErrnoText(errno));
  int state = 0;
  while (waitpid(pid, &state, 0) < 0) {
    if (errno != EINTR) return Fail(ExitCode::kOutputFailed, ErrnoText(errno));
  }
  if (WIFEXITED(state) && WEXITSTATUS(state) == 0) return absl::OkStatus();
  if (!WIFEXITED(state)) return Fail(ExitCode::kOutputFailed, "the process that writes was killed");
  // The process has printed the reason itself.
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
