#include "userspace/cli/dump_worker.h"

#include <sys/resource.h>

#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "symbols/plan/target_answers.h"
#include "symbols/process/cache_bytes.h"
#include "symbols/process/target_entries.h"
#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

// The most processor time of a dump in seconds. A process with a hundred thousand frames takes one
// second.
constexpr int64_t kLongestDumpS = 60;

// The first bytes of the worker's questions, beside those in entry_questions.h.
constexpr char kStopAll = 'S';
constexpr char kRelease = 'R';

// The result of StopAll().
enum class StopResult : uint8_t { kStopped = 0, kUnavailable = 1, kFailed = 2 };

// Gives this thread, and the worker that it starts, the highest priority if that is permitted. So a
// stopped process need not wait until they get a processor.
class HighestPriority {
 public:
  HighestPriority() : before_(getpriority(PRIO_PROCESS, 0)) { setpriority(PRIO_PROCESS, 0, -20); }
  ~HighestPriority() { setpriority(PRIO_PROCESS, 0, before_); }
  HighestPriority(const HighestPriority&) = delete;
  HighestPriority& operator=(const HighestPriority&) = delete;

 private:
  int before_;
};

std::string Stop(StoppedThreads* stopped, const absl::Status& no_turn, std::string_view question) {
  CacheReader in(question);
  const auto deadline_ns = static_cast<int64_t>(in.Number<uint64_t>());
  const uint32_t count = in.Number<uint32_t>();
  std::set<int> except;
  for (uint32_t i = 0; i < count && in.ok(); ++i) {
    except.insert(static_cast<int>(in.Number<uint32_t>()));
  }
  const absl::Status status = stopped == nullptr ? no_turn : stopped->StopAll(deadline_ns, except);
  CacheWriter out;
  const StopResult result = status.ok()                   ? StopResult::kStopped
                            : absl::IsUnavailable(status) ? StopResult::kUnavailable
                                                          : StopResult::kFailed;
  out.Number(static_cast<uint8_t>(result));
  out.Number(static_cast<uint32_t>(ExitCodeOf(status)));
  out.Text(std::string(status.message()));
  const bool has_threads = status.ok() && stopped != nullptr;
  out.Number(static_cast<uint32_t>(has_threads ? stopped->threads().size() : 0));
  if (!has_threads) return out.Take();
  for (const StoppedThread& thread : stopped->threads()) {
    out.Number(static_cast<uint32_t>(thread.tid));
    out.Number(static_cast<uint8_t>(thread.is_gone ? 1 : 0));
    out.Text({reinterpret_cast<const char*>(&thread.registers), sizeof(thread.registers)});
  }
  return out.Take();
}

// Runs `work` in a worker. `stopped`: null where the threads cannot be stopped, for the reason
// `no_turn`.
absl::StatusOr<std::string> RunWithStop(
    Pid pid, StoppedThreads* stopped, const absl::Status& no_turn,
    const std::function<absl::StatusOr<std::string>(RemoteStop*)>& work) {
  const HighestPriority priority;
  TargetAnswers answers(pid, nullptr);
  WorkerOrder order;
  order.what = "reads PID " + std::to_string(Raw(pid));
  order.longest_s = kLongestDumpS;
  return RunWorker(
      order,
      [&work](WorkerChannel* channel) {
        AskForEntries(channel);
        RemoteStop stop(channel);
        return work(&stop);
      },
      [&](std::string_view question) {
        const char kind = question.empty() ? '\0' : question.front();
        if (kind != kStopAll && kind != kRelease) return answers.Answer(question);
        if (kind == kStopAll) {
          return WorkerAnswer{Stop(stopped, no_turn, question.substr(1)), UniqueFd()};
        }
        if (stopped != nullptr) stopped->Release();
        return WorkerAnswer();
      });
}

}  // namespace

absl::Status RemoteStop::StopAll(int64_t deadline_ns, const std::set<int>& except) {
  CacheWriter question;
  question.Number(static_cast<uint64_t>(deadline_ns));
  question.Number(static_cast<uint32_t>(except.size()));
  for (const int tid : except) question.Number(static_cast<uint32_t>(tid));
  const WorkerAnswer answer = channel_->Ask(kStopAll + question.Take());
  CacheReader in(answer.bytes);
  const auto result = static_cast<StopResult>(in.Number<uint8_t>());
  const auto code = static_cast<ExitCode>(in.Number<uint32_t>());
  const std::string message = in.Text();
  if (result == StopResult::kUnavailable) return absl::UnavailableError(message);
  if (result != StopResult::kStopped) return Fail(code, message);
  const uint32_t count = in.Number<uint32_t>();
  threads_.clear();
  for (uint32_t i = 0; i < count && in.ok(); ++i) {
    StoppedThread thread;
    thread.tid = static_cast<int>(in.Number<uint32_t>());
    thread.is_gone = in.Number<uint8_t>() != 0;
    const std::string registers = in.Text();
    if (registers.size() == sizeof(thread.registers)) {
      std::memcpy(&thread.registers, registers.data(), registers.size());
    }
    thread.is_stopped = !thread.is_gone;
    threads_.push_back(thread);
  }
  return absl::OkStatus();
}

void RemoteStop::Release() { channel_->Ask(std::string(1, kRelease)); }

absl::StatusOr<std::string> RunDumpWorker(
    Pid pid, const std::function<absl::StatusOr<std::string>(RemoteStop*)>& work) {
  std::optional<absl::StatusOr<std::string>> result;
  const absl::Status status = StoppedThreads::Use(pid, [&](StoppedThreads* stopped) {
    result = RunWithStop(pid, stopped, absl::OkStatus(), work);
    return result->status();
  });
  if (!result) {
    // Another process may stop threads just now, so that the process is read while it goes on.
    return RunWithStop(pid, nullptr, status, work);
  }
  return status.ok() ? *std::move(result) : absl::StatusOr<std::string>(status);
}

}  // namespace proftrace
