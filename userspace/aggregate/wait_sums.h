// Sums up which thread waited for which other one, for `report --waits`. A wait is time off the CPU
// up to the wake-up; from then on the thread waits for a CPU. Threads that lost their CPU while
// they could go on waited for nobody, and are not here.
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <string>
#include <vector>

#include "userspace/aggregate/step_windows.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// The place at which a thread was at one time.
struct WaitPlace {
  PathId path = kRootPath;   // path of the innermost span; kRootPath = in no span
  StackId stack = kNoStack;  // where Python was when that span began (FrameTree::Shown())
  int32_t call = -1;         // the system call that the thread was in; -1 = none
  SystemAbi abi = SystemAbi::kX86_64;

  bool operator==(const WaitPlace&) const = default;
};

struct WaitSum {
  ThreadIndex thread{};
  WaitReason reason = WaitReason::kOther;
  WaitPlace place;  // where the thread waited
  Pid waker_pid{};  // 0 = woken by no thread: a clock, a device, or not at all
  Tid waker_tid{};
  bool waker_is_known = false;  // the waker was recorded, and `waker` is its place at the wake-up
  ThreadIndex waker_thread{};
  WaitPlace waker;
  uint32_t waker_frame = 0;  // OffCpuFacts::waker_frame
  uint64_t count = 0;
  uint64_t unfinished = 0;  // waits that were not over when the recording ended
  int64_t blocked_ns = 0;
  int64_t longest_ns = 0;
};

// Sums up waits, the longest blocked time first. One pass over the spans and one over the events.
// Memory: some words for each wait. With `windows`, also sums up the waits that began in each
// window into `shares`: their number and their blocked time.
std::vector<WaitSum> SumWaits(const Timeline& timeline, const StepWindows* windows = nullptr,
                              std::vector<WindowShare>* shares = nullptr);

// Sums up the waits for which `is_counted` is true.
std::vector<WaitSum> SumWaits(const Timeline& timeline,
                              absl::FunctionRef<bool(const SystemEvent&)> is_counted);

// Returns the names of a path from the root: "step/planted_lock"; empty for kRootPath.
std::string PathText(const Timeline& timeline, PathId path);

}  // namespace proftrace
