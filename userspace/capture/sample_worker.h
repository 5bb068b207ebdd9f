// The names of samples are found by a worker without rights (userspace/sandbox/worker.h): unwind
// tables, symbols and Python's objects are the target's. It lasts as long as samples are taken.
#pragma once

#include <absl/status/status.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "symbols/plan/target_answers.h"
#include "userspace/capture/sample_names.h"
#include "userspace/model/ids.h"
#include "userspace/sandbox/worker.h"

namespace proftrace {

struct NewSampledProcess {
  Pid pid{};
  SampledProcess process;
};
struct OldSampledProcess {
  Pid pid{};
};
// What a worker is told, in this order.
using SampleTask = std::variant<NewSampledProcess, OldSampledProcess, SampleReading>;

struct NamedReading {
  uint64_t number = 0;
  NamedSample sample;
  std::vector<std::byte> records;  // that it needs and that were not told before
};

class SampleWorker {
 public:
  // Waits for the next task; nullopt: there is none any more.
  using NextTask = std::function<std::optional<SampleTask>()>;
  using OnNamed = std::function<void(NamedReading named)>;

  // Works until there is no task any more, on the calling thread. Fails as RunWorker(): tasks after
  // that are not done.
  absl::Status Run(const NextTask& next, const OnNamed& on_named);

 private:
  WorkerAnswer Answer(std::string_view question, const NextTask& next, const OnNamed& on_named);
  WorkerAnswer GiveTask(const NextTask& next);

  std::map<Pid, std::unique_ptr<TargetAnswers>> targets_;
  Pid about_{};  // whose task is being done: of no other process anything is told
  Pid asked_{};  // whose reading is being named
  uint64_t number_ = 0;
};

}  // namespace proftrace
