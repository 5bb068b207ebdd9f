// Finds the names of samples in a worker without rights (userspace/sandbox/worker.h), because
// unwind tables, symbols and Python's objects are the target's. The worker lasts as long as samples
// are taken.
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
#include "userspace/capture/names/sample_names.h"
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
// A task of the worker; the worker gets its tasks in order.
using SampleTask = std::variant<NewSampledProcess, OldSampledProcess, SampleReading>;

struct NamedReading {
  uint64_t number = 0;
  NamedSample sample;
  std::vector<std::byte> records;  // records that the sample needs and that were not made before
};

class SampleWorker {
 public:
  // Waits for the next task. Returns nullopt where no more will come.
  using NextTask = std::function<std::optional<SampleTask>()>;
  using OnNamed = std::function<void(NamedReading named)>;

  // Works on the calling thread until there is no task any more. Fails as RunWorker() does; later
  // tasks are then not done.
  absl::Status Run(const NextTask& next, const OnNamed& on_named);

 private:
  WorkerAnswer Answer(std::string_view question, const NextTask& next, const OnNamed& on_named);
  WorkerAnswer GiveTask(const NextTask& next);

  std::map<Pid, std::unique_ptr<TargetAnswers>> targets_;
  Pid about_{};  // the process of the current task: the worker gets nothing of any other process
  Pid asked_{};  // the process whose reading is being named
  uint64_t number_ = 0;
};

}  // namespace proftrace
