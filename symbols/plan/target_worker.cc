#include "symbols/plan/target_worker.h"

#include "symbols/process/target_entries.h"

namespace proftrace {

absl::StatusOr<std::string> ReadInWorker(Pid pid, int64_t longest_s,
                                         const std::function<absl::StatusOr<std::string>()>& read) {
  if (EntryChannel() != nullptr) return read();
  TargetAnswers answers(pid, nullptr);
  WorkerOrder order;
  order.what = "reads PID " + std::to_string(Raw(pid));
  order.longest_s = longest_s;
  return RunWorker(
      order,
      [&read](WorkerChannel* channel) {
        AskForEntries(channel);
        return read();
      },
      [&answers](std::string_view question) { return answers.Answer(question); });
}

}  // namespace proftrace
