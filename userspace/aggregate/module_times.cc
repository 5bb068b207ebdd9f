#include "userspace/aggregate/module_times.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>

#include "userspace/aggregate/backward_modules.h"
#include "userspace/aggregate/each_span.h"
#include "userspace/base/saturating.h"

namespace proftrace {
namespace {

void Add(int64_t more, int64_t* sum) { *sum = SaturatingSum(*sum, more); }

// The sums of the spans with one stack.
struct StackSums {
  int64_t backward_ns = 0;
  uint64_t operators = 0;
  int64_t cpu_memory_bytes = 0;
};

// Sums up the spans by stack. `backward_shares` is filled by stack; its first value is the time of
// the backward pass.
std::vector<StackSums> SumStacks(const Timeline& timeline, WindowShares* backward_shares) {
  std::vector<StackSums> sums(timeline.python_frames().size());
  BackwardModules backward(timeline);
  ForEachSpan(timeline, [&](SpanId id, const Span& span) {
    const BackwardModules::Place place = backward.Of(id, span);
    if (span.is_apart || !span.is_complete()) return;
    StackSums& sum = sums[Raw(place.stack)];
    if (place.part == BackwardModules::Part::kOutermost) {
      Add(span.duration_ns, &sum.backward_ns);
      backward_shares->Add(span.start_ns, Raw(place.stack), {span.duration_ns});
    }
    if (place.part != BackwardModules::Part::kNone) return;
    if (timeline.label(span.label).kind == SpanKind::kOperator) ++sum.operators;
    Add(timeline.columns().memory.at(id).self_cpu_bytes, &sum.cpu_memory_bytes);
  });
  return sums;
}

// Numbers of modules by PythonFrame::module: 1 + the index into ModuleSums::modules; 0 = none.
using ModuleNumbers = std::vector<uint32_t>;

ModuleNumbers NumberModules(const Timeline& timeline, ModuleSums* result) {
  const std::vector<PythonModule>& modules = timeline.python_modules();
  ModuleNumbers numbers(modules.size() + 1);
  std::vector<uint32_t> around(timeline.python_frames().size());  // by frame: of its module
  absl::flat_hash_map<std::tuple<uint32_t, uint32_t, std::string_view>, uint32_t> of_class;
  for (uint32_t id = 1; id < around.size(); ++id) {
    const PythonFrame& frame = timeline.python_frame(StackId{id});
    const uint32_t caller = around[Raw(frame.parent)];
    uint32_t& number = numbers[frame.module];
    if (frame.module != 0 && number == 0) {
      const PythonModule& module = modules[frame.module - 1];
      const auto next = static_cast<uint32_t>(result->modules.size()) + 1;
      number = next;
      if (!module.has_path) {
        const std::tuple key{Raw(module.pid), caller, std::string_view(module.class_name)};
        number = of_class.try_emplace(key, next).first->second;
      }
      if (number == next) {
        result->modules.emplace_back().module = frame.module - 1;
      } else {
        ++result->modules[number - 1].instances;
      }
    }
    around[id] = frame.module == 0 ? caller : number;
  }
  return numbers;
}

// Adds the sums of each stack to all modules in it, once to each module.
void AddStacks(const Timeline& timeline, const ModuleNumbers& numbers,
               const std::vector<StackSums>& sums, ModuleSums* result) {
  std::vector<uint32_t> met;  // the modules of a stack
  for (uint32_t stack = 1; stack < sums.size(); ++stack) {
    const StackSums& sum = sums[stack];
    if (sum.backward_ns == 0 && sum.operators == 0 && sum.cpu_memory_bytes == 0) continue;
    met.clear();
    for (StackId at{stack}; at != kNoStack; at = timeline.python_frame(at).parent) {
      const uint32_t number = numbers[timeline.python_frame(at).module];
      if (number == 0 || std::find(met.begin(), met.end(), number) != met.end()) continue;
      ModuleTimes& module = result->modules[number - 1];
      Add(sum.backward_ns, &module.backward_ns);
      if (met.empty()) Add(sum.backward_ns, &module.self_backward_ns);
      module.operators += sum.operators;
      Add(sum.cpu_memory_bytes, &module.cpu_memory_bytes);
      met.push_back(number);
    }
    if (!met.empty()) Add(sum.backward_ns, &result->total_ns);
  }
}

struct OpenCall {
  uint32_t row = 0;
  uint32_t module = 0;  // + 1
};

void AddCalls(const Timeline& timeline, const ModuleNumbers& numbers, const PythonRows& rows,
              ModuleSums* result, WindowShares* shares) {
  std::vector<std::vector<OpenCall>> open_calls(timeline.threads().size());
  for (uint32_t i = 0; i < rows.size(); ++i) {
    const PythonRow& row = rows.at(i);
    const uint32_t number = numbers[timeline.python_frame(row.frame).module];
    if (number == 0) continue;
    std::vector<OpenCall>& open = open_calls[Raw(row.thread)];
    while (!open.empty() && rows.at(open.back().row).end_ns <= row.start_ns) open.pop_back();
    const int64_t duration_ns = row.end_ns - row.start_ns;
    ModuleTimes& module = result->modules[number - 1];
    ++module.calls;
    Add(duration_ns, &module.self_forward_ns);
    const bool is_recursive = std::any_of(
        open.begin(), open.end(), [&](const OpenCall& call) { return call.module == number; });
    if (!is_recursive) Add(duration_ns, &module.forward_ns);
    shares->Add(row.start_ns, number - 1, {1, is_recursive ? 0 : duration_ns, duration_ns, 0});
    if (open.empty()) {
      Add(duration_ns, &result->total_ns);
    } else {
      const uint32_t around = open.back().module - 1;
      Add(-duration_ns, &result->modules[around].self_forward_ns);
      shares->Add(row.start_ns, around, {0, 0, -duration_ns, 0});
    }
    open.push_back({i, number});
  }
}

// Adds the time of the backward pass in each window to all modules in its stacks, once to each
// module.
void AddBackward(const Timeline& timeline, const ModuleNumbers& numbers,
                 const std::vector<WindowShare>& by_stack, const StepWindows& windows,
                 WindowShares* shares) {
  std::vector<uint32_t> met;
  for (const WindowShare& share : by_stack) {
    met.clear();
    const int64_t time_ns = windows.intervals[share.window].first;
    for (StackId at{share.row}; at != kNoStack; at = timeline.python_frame(at).parent) {
      const uint32_t number = numbers[timeline.python_frame(at).module];
      if (number == 0 || std::find(met.begin(), met.end(), number) != met.end()) continue;
      shares->Add(time_ns, number - 1, {0, 0, 0, share.values[0]});
      met.push_back(number);
    }
  }
}

bool HasDoneNothing(const ModuleTimes& module) {
  return module.calls == 0 && module.operators == 0 && module.backward_ns == 0 &&
         module.cpu_memory_bytes == 0;
}

}  // namespace

ModuleSums SumModules(const Timeline& timeline, const PythonRows& rows, const StepWindows* windows,
                      std::vector<WindowShare>* shares) {
  ModuleSums result;
  WindowShares backward(windows);
  WindowShares sums(windows);
  const ModuleNumbers numbers = NumberModules(timeline, &result);
  AddStacks(timeline, numbers, SumStacks(timeline, &backward), &result);
  AddCalls(timeline, numbers, rows, &result, &sums);
  if (windows != nullptr) AddBackward(timeline, numbers, backward.Take(), *windows, &sums);
  std::vector<std::optional<uint32_t>> kept(result.modules.size());
  uint32_t next = 0;
  for (size_t i = 0; i < kept.size(); ++i) {
    if (!HasDoneNothing(result.modules[i])) kept[i] = next++;
  }
  std::erase_if(result.modules, HasDoneNothing);
  if (shares != nullptr) *shares = sums.Take(kept);
  return result;
}

}  // namespace proftrace
