#include "userspace/cli/flight_dumps.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "userspace/base/exit_status.h"
#include "userspace/cli/background_self.h"
#include "userspace/cli/events.h"
#include "userspace/cli/say.h"
#include "userspace/wire/capture_writer.h"

namespace proftrace {
namespace {

constexpr std::chrono::milliseconds kLook(100);
constexpr int kLowPriority = 10;
constexpr size_t kMostWaiting = 3;

// Starts the process that makes the outputs of the capture in `directory`. Returns its PID, or -1
// with errno. `path` is for messages.
pid_t StartExport(const ResultDirectory& directory, const std::string& path,
                  const std::string& formats) {
  return StartSelfInBackground({"export", path, "--format", formats, "-o", path, "--as-recorded",
                                BackgroundDescriptorsText()},
                               {directory.capture_fd(), directory.fd()}, kLowPriority);
}

}  // namespace

FlightDumps::FlightDumps(Options options) : options_(std::move(options)) {
  thread_ = std::thread([this] { Run(); });
}

FlightDumps::~FlightDumps() { (void)Finish(); }

void FlightDumps::Add(FlightDump dump) {
  const std::lock_guard lock(mutex_);
  if (dumps_.size() >= kMostWaiting) {
    has_refused_ = true;
    SayOverProgress("%s: no dump: %zu others wait for the disk", dump.reason.c_str(),
                    dumps_.size());
    return;
  }
  dumps_.push_back(std::move(dump));
  changed_.notify_all();
}

void FlightDumps::Note(const absl::Status& status) {
  if (status_.ok()) status_ = Told(status);
}

absl::StatusOr<ResultDirectory> FlightDumps::Write(const FlightDump& dump) {
  absl::StatusOr<ResultDirectory> directory =
      options_.directory->PrepareIn("dump_" + std::to_string(next_++), options_.force);
  if (!directory.ok()) return directory.status();
  absl::StatusOr<int> fd = directory->CreateCapture();
  if (!fd.ok()) return fd.status();
  absl::StatusOr<std::unique_ptr<CaptureWriter>> writer =
      CaptureWriter::Create(*fd, directory->capture_path());
  if (!writer.ok()) return writer.status();
  if (absl::Status status = dump.WriteTo(writer->get()); !status.ok()) return status;
  directory->ForgetEarlier();
  return directory;
}

void FlightDumps::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait_for(lock, kLook, [this] { return stop_ || !dumps_.empty(); });
    if (stop_ && dumps_.empty()) return;
    if (dumps_.empty()) {
      lock.unlock();
      WaitForOutputs(/*is_patient=*/false);
      lock.lock();
      continue;
    }
    const FlightDump dump = std::move(dumps_.front());
    dumps_.pop_front();
    lock.unlock();
    absl::StatusOr<ResultDirectory> directory = Write(dump);
    if (directory.ok()) {
      if (!options_.quiet) {
        SayOverProgress("%s: %s has the last %.1f s", dump.reason.c_str(),
                        directory->path().c_str(),
                        static_cast<double>(dump.window.duration_ns) * 1e-9);
      }
      if (options_.json) {
        WriteEvent({{"event", "dump"},
                    {"reason", dump.reason},
                    {"duration_s", static_cast<double>(dump.window.duration_ns) * 1e-9},
                    {"result", directory->path()}});
      }
      waiting_.push_back(*std::move(directory));
    } else {
      SayOverProgress("dump_%u was not written (%s); the recording goes on: %s", next_ - 1,
                      dump.reason.c_str(), std::string(directory.status().message()).c_str());
      Note(directory.status());
    }
    WaitForOutputs(/*is_patient=*/false);
    lock.lock();
  }
}

void FlightDumps::StartOutputs() {
  if (waiting_.empty()) return;
  const ResultDirectory directory = std::move(waiting_.front());
  waiting_.pop_front();
  const ResultDirectory::Place place = directory.FindPlace();
  if (place.is_removed) {
    Say("the outputs of %s were not made: it was removed", place.path.c_str());
    Note(Fail(ExitCode::kOutputFailed, "outputs were not made"));
    return;
  }
  running_ = Outputs{place.path, 0};
  running_->pid = StartExport(directory, place.path, options_.formats);
  if (running_->pid >= 0) return;
  Say("the outputs of %s were not made: %s", running_->directory.c_str(), ErrnoText(errno).c_str());
  Note(Fail(ExitCode::kOutputFailed, "outputs were not made"));
  running_.reset();
}

void FlightDumps::WaitForOutputs(bool is_patient) {
  while (running_.has_value() || !waiting_.empty()) {
    if (!running_.has_value()) {
      StartOutputs();
      continue;
    }
    int state = 0;
    const pid_t ended = waitpid(running_->pid, &state, is_patient ? 0 : WNOHANG);
    if (ended == 0) return;
    if (ended < 0 && errno == EINTR) continue;
    const int code = ended > 0 && WIFEXITED(state) ? WEXITSTATUS(state)
                                                   : static_cast<int>(ExitCode::kOutputFailed);
    if (code == static_cast<int>(ExitCode::kEventsLost)) {
      if (options_.strict) {
        Say("events were lost in %s (--strict)", running_->directory.c_str());
        Note(Fail(ExitCode::kEventsLost, "events were lost"));
      }
    } else if (code != 0) {  // the process has printed the reason, unless it was killed
      if (ended <= 0 || !WIFEXITED(state)) {
        Say("the outputs of %s were not made: their process was killed",
            running_->directory.c_str());
      }
      Note(Fail(static_cast<ExitCode>(code), "outputs were not made"));
    }
    running_.reset();
  }
}

absl::StatusOr<ResultDirectory> FlightDumps::WriteLast(const FlightDump& dump) {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  return Write(dump);
}

absl::Status FlightDumps::Finish() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  WaitForOutputs(/*is_patient=*/true);
  if (has_refused_) Note(Fail(ExitCode::kOutputFailed, "dumps were not written"));
  return status_;
}

}  // namespace proftrace
