// Finds why a device had nothing to do. A gap is a time in which no stream of the device worked, or
// in which one of its busiest streams did not. The time of a gap is charged to what the thread that
// launched the next piece of work did in the gap.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "userspace/aggregate/python_rows.h"
#include "userspace/aggregate/step_windows.h"
#include "userspace/model/timeline.h"

namespace proftrace {

enum class IdleCause : uint8_t {
  kOperator = 0,   // inside an operator or autograd row, in no CUDA call: dispatch
  kSynchronizing,  // in a call of CUDA that waits, by its name
  kCudaCall,       // in another call of CUDA
  kDataLoader,     // in no operator, but in the annotation around the DataLoader's next batch
  kOtherCode,      // in no operator and no call; not known to be Python
  kLaunched,       // the next work was launched already, and had not begun
  kUnknown,        // the next work's call was not recorded
  // With the kernel's activities recorded, these are split from the operator, the CUDA call or
  // other code:
  kIo,        // in a system call that moves bytes of files or the network
  kLock,      // off the CPU, for a lock
  kRunQueue,  // it could run, and had no CPU
  kSystem,    // in another system call or a page fault; off the CPU for another reason
  kPython,    // a function of Python ran; needs stacks, else it is kOtherCode
};
inline constexpr size_t kIdleCauses = 12;

// Returns whether rows of the label are calls of CUDA that wait for a device.
bool IsSynchronizing(const Label& label);

// Returns the cause's name for users: "operator dispatch", "synchronizing call".
std::string_view IdleCauseName(IdleCause cause);

struct IdleGap {
  int64_t start_ns = 0;  // CLOCK_MONOTONIC
  int64_t end_ns = 0;
  ThreadIndex thread{};    // the thread that launched the next work; meaningless for kUnknown
  uint32_t next_work = 0;  // index into Timeline::device_activities()
  std::array<int64_t, kIdleCauses> by_cause_ns{};  // their sum is the gap
  // The function of Python in which the thread was longest, running or waiting, outside of
  // operators, calls of CUDA and the DataLoader; kNoStack: none, or not recorded.
  StackId python = kNoStack;

  // Returns the cause with the largest part of the gap.
  IdleCause main_cause() const;
};

// One device, or one of its streams, as one process uses it. Work of other processes on the device
// does not count.
struct DeviceIdle {
  Pid pid{};
  uint32_t device = 0;
  std::optional<uint32_t> stream;  // nullopt: all streams together
  int64_t start_ns = 0;            // begin of its first work
  int64_t end_ns = 0;              // end of its last work
  int64_t busy_ns = 0;
  int64_t idle_ns = 0;
  std::array<int64_t, kIdleCauses> by_cause_ns{};
  std::vector<IdleGap> gaps;  // in order; they do not overlap
};

// Returns the devices by process and number. After a device on which several streams worked come
// its busiest streams: the one that worked longest, and those that worked a tenth of that or more.
// Only these entries show that a stream waits for another one, or for other processes' parts of a
// collective. Memory: a hundred bytes for each gap, the open rows of each thread, and 48 bytes for
// each row of `python` on a thread that launches work.
std::vector<DeviceIdle> FindDeviceIdle(const Timeline& timeline, const PythonRows& python);

// A cause's part of the idle time of a device or a stream.
struct IdleShare {
  IdleCause cause = IdleCause::kOperator;
  int64_t ns = 0;
  uint64_t gaps = 0;          // of which the cause has a part
  int64_t longest_ns = 0;     // the largest of these parts
  StackId python = kNoStack;  // the function of Python with most of the time in these gaps
};

// Returns the causes that have a part of the idle time, the largest first.
std::vector<IdleShare> SharesOf(const DeviceIdle& device);

// Sums up the gaps that began in each window. The row is `device * kIdleCauses + cause`, where
// `device` is an index into `devices`; the values are the cause's time and the number of gaps of
// which it has a part.
std::vector<WindowShare> SumIdleShares(const std::vector<DeviceIdle>& devices,
                                       const StepWindows& windows);

}  // namespace proftrace
