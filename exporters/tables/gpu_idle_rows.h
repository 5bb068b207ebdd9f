// The rows and columns of the table `gpu_idle`: one row a gap in which no stream of a device
// worked, or one of its busiest streams (column `stream`), with what the thread that launched the
// next piece of work did meanwhile.
#pragma once

#include <absl/functional/function_ref.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporters/tables/column.h"
#include "userspace/aggregate/device_idle.h"
#include "userspace/model/timeline.h"

namespace proftrace {

struct GpuIdleRow {
  int64_t Part(IdleCause cause) const { return by_cause_ns[static_cast<size_t>(cause)]; }

  uint32_t pid = 0;
  uint32_t device = 0;
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  std::string_view main_cause;
  decltype(IdleGap::by_cause_ns) by_cause_ns = {};
  std::optional<uint32_t> tid;
  uint32_t next_stream = 0;
  std::string_view next_name;
  std::string_view next_operator;
  std::string python_function;
  std::optional<uint32_t> stream;
};

template <typename Visit>
void ForEachCell(const GpuIdleRow& row, Visit&& visit) {
  visit(Column{"pid", "The process whose work ends the gap."}, row.pid);
  visit(Column{"device", "The GPU's number in that process."}, row.device);
  visit(Column{"start_ns", "When the gap began (Unix time)."}, row.start_ns);
  visit(Column{"duration_ns", "How long it lasted."}, row.duration_ns);
  visit(Column{"main_cause", "The cause with the largest part: see the list below."},
        row.main_cause);
  visit(Column{"operator_ns", "The launching thread was in an operator."},
        row.Part(IdleCause::kOperator));
  visit(Column{"synchronizing_ns", "It was in a call of CUDA that waits."},
        row.Part(IdleCause::kSynchronizing));
  visit(Column{"cuda_call_ns", "It was in another call of CUDA."}, row.Part(IdleCause::kCudaCall));
  visit(Column{"dataloader_ns", "It waited for the next batch of a DataLoader."},
        row.Part(IdleCause::kDataLoader));
  visit(Column{"outside_operators_ns", "It was in none of these, and not known to be in Python."},
        row.Part(IdleCause::kOtherCode));
  visit(Column{"launched_ns", "The next work was launched already, but had not begun."},
        row.Part(IdleCause::kLaunched));
  visit(Column{"unknown_ns", "The call that launched the next work was not recorded."},
        row.Part(IdleCause::kUnknown));
  visit(Column{"tid", "The thread that launched the next work."}, row.tid);
  visit(Column{"next_stream", "The stream of the next work."}, row.next_stream);
  visit(Column{"next_name", "The next work: a kernel, copy or memset."}, row.next_name);
  visit(Column{"next_operator", "The operator that asked for it."}, row.next_operator);
  visit(
      Column{"io_ns",
             "The thread was in a system call that moves bytes (`--activities syscalls` or `io`)."},
      row.Part(IdleCause::kIo));
  visit(Column{"lock_ns", "It waited for a lock (`--activities sched`)."},
        row.Part(IdleCause::kLock));
  visit(Column{"run_queue_ns", "It could run and had no CPU (`--activities sched`)."},
        row.Part(IdleCause::kRunQueue));
  visit(Column{"system_ns",
               "It was in another system call or page fault, or off the CPU for another reason."},
        row.Part(IdleCause::kSystem));
  visit(Column{"python_ns", "A Python function ran outside of operators (`--with-stack`)."},
        row.Part(IdleCause::kPython));
  visit(Column{"python_function", "The Python function in which it was longest."},
        row.python_function);
  visit(Column{"stream", "The stream whose gap this is; empty: the GPU as a whole."}, row.stream);
}

// Gives the rows to `add`, until it returns false.
void ForEachGpuIdleRow(const Timeline& timeline, const std::vector<DeviceIdle>& devices,
                       absl::FunctionRef<bool(const GpuIdleRow&)> add);

}  // namespace proftrace
