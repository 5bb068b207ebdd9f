// The rows of torch's key_averages(): spans grouped by name, with torch's own rules for what is a
// row.
//
// The rules, from torch/autograd/profiler.py and profiler_util.py (2.11):
//   - utility operators (aten::is_leaf, profiler::_record_function_*, …) are taken out of the tree
//     before anything is computed: their self time stays with their parent;
//   - a span that is its parent's only child and has its name is folded into the parent
//     (_remove_dup_nodes);
//   - all ProfilerStep#N are one row, ProfilerStep*; mangled C++ names are demangled;
//   - an async span has no self time and no place in the tree;
//   - a span that outlives its parent is a child of the nearest ancestor that contains it, and its
//     old parent keeps the time that they share as self time;
//   - an annotation and an operator of the same name are two rows;
//   - memory events that belong to no span are a row, [memory]; failed allocations, [OutOfMemory];
//   - an operator's device time is that of the kernels, copies and memsets that it and its children
//     asked for; an annotation has that of its children alone;
//   - kernels, copies and memsets are rows of the device, by their names; the work that an
//     annotation asked for is also a row of the device, which does not count in the sum;
//   - CUPTI's overheads are rows of the CPU.
//
// One rule is not torch's: a span whose end was not seen (truncated, lost) has no time that can be
// trusted. It is left out of counts and times, and counted in `incomplete_spans`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/aggregate/step_windows.h"
#include "userspace/aggregate/steps.h"
#include "userspace/model/timeline.h"

namespace proftrace {

struct KeyAveragesOptions {
  bool group_by_overload_name = false;
  bool group_by_input_shape = false;
  uint32_t group_by_stack_n = 0;  // by this number of the stack's innermost frames
  // Where it is not nullptr, KeyAverages::by_window is filled. Must outlive the call.
  const StepWindows* windows = nullptr;
  // By ThreadIndex: whether the thread's spans count, and the work of devices for them. nullptr:
  // all threads count. Must outlive the call.
  const std::vector<bool>* threads = nullptr;
};

// What the kernel did in the self time of rows (--activities).
struct SystemSums {
  int64_t self_off_cpu_ns = 0;
  int64_t self_calls = 0;
  int64_t self_faults = 0;
  bool is_unknown = false;  // something was lost while one of the spans was open

  void Add(const SystemSums& more);
};

struct KeyAverage {
  std::string name;
  std::string overload_name;  // empty unless grouped by it
  uint64_t count = 0;
  int64_t self_cpu_time_total_ns = 0;
  int64_t cpu_time_total_ns = 0;
  int64_t self_device_time_total_ns = 0;  // 0 where no device was recorded
  int64_t device_time_total_ns = 0;
  SpanMemory memory;  // sums; zeros where memory was not recorded
  SystemSums system;  // zeros where the kernel's activities were not recorded
  int64_t flops = 0;  // a sum; see flops.h
  bool is_user_annotation = false;
  bool is_device = false;  // a row of a GPU, else of the CPU
  bool is_async = false;   // whether the group's first span is async, as in torch
  bool is_top_level =
      false;  // whether the group's first span has no parent, as torch's top_level_events_only asks

  std::string input_shapes;        // empty unless grouped by it; "[]" for spans without inputs
  std::vector<std::string> stack;  // empty unless grouped by it; the innermost frame first

  int64_t self_on_cpu_ns() const { return self_cpu_time_total_ns - system.self_off_cpu_ns; }
  // Return microseconds for each call; 0 where there was no call.
  double cpu_time_us() const;
  double device_time_us() const;
};

struct KeyAverages {
  std::vector<KeyAverage> rows;  // in the order of each group's first span, as in torch
  std::vector<Pid> processes;    // processes with spans or events in the rows, ascending
  bool grouped_by_overload_name = false;
  bool grouped_by_input_shape = false;
  uint32_t grouped_by_stack_n = 0;
  int64_t self_cpu_time_total_ns = 0;     // over all rows
  uint64_t incomplete_spans = 0;          // left out: their end was not seen
  int64_t self_device_time_total_ns = 0;  // over the device's rows that are no annotations
  bool has_device_records = false;        // a GPU agent recorded; else device times are not known
  bool has_memory = false;                // memory was recorded
  bool has_flops = false;                 // flops were asked for
  SystemActivities system;                // which of SystemSums were recorded
  uint8_t memory_device = 0;              // c10::DeviceType of the device memory, 0 = there is none
  // The sums of spans that began in each window: count, self and total CPU time, and self device
  // time. Rows that were put together with others have no shares.
  std::vector<WindowShare> by_window;
};

// Groups the spans in one pass from last to first. Memory: a few words for each label, and for each
// parent that waits for a decision. `steps` count as rows too, as parents of the rows that they
// enclose.
KeyAverages BuildKeyAverages(const Timeline& timeline, const KeyAveragesOptions& options,
                             const StepRows& steps = StepRows());

// Returns the sum of all rows, named "Total", as torch's total_average() does.
KeyAverage TotalAverage(const KeyAverages& averages);

}  // namespace proftrace
