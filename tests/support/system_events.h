// System events for made-up Timelines.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string_view>
#include <vector>

#include "userspace/model/system_calls.h"
#include "userspace/model/system_event.h"

namespace proftrace {

// A test that names no call of the kernel's is ended, so that it cannot pass.
inline uint16_t SystemCallNumber(std::string_view name) {
  for (uint16_t number = 0; number < kSystemCallNumbers; ++number) {
    const SystemCallInfo* info = FindSystemCall(SystemAbi::kX86_64, number);
    if (info != nullptr && info->name == name) return number;
  }
  std::cerr << "no system call " << name << "\n";
  std::abort();
}

inline SystemEvent MakeSystemEvent(SystemKind kind, ThreadIndex thread, int64_t start_ns,
                                   int64_t end_ns) {
  SystemEvent event;
  event.kind = kind;
  event.thread = thread;
  event.start_ns = start_ns;
  event.duration_ns = end_ns - start_ns;
  return event;
}

inline SystemEvent MakeCall(ThreadIndex thread, std::string_view name, int64_t start_ns,
                            int64_t end_ns, int64_t result,
                            const std::vector<uint64_t>& arguments = {}) {
  SystemEvent event = MakeSystemEvent(SystemKind::kCall, thread, start_ns, end_ns);
  event.call.number = SystemCallNumber(name);
  event.call.result = result;
  event.call.argument_count = static_cast<uint8_t>(arguments.size());
  std::copy(arguments.begin(), arguments.end(), event.call.arguments.begin());
  return event;
}

// `call`: the system call that it was in; empty = none.
inline SystemEvent MakeOffCpu(ThreadIndex thread, WaitReason reason, int64_t start_ns,
                              int64_t end_ns, int64_t run_queue_ns = 0,
                              std::string_view call = "") {
  SystemEvent event = MakeSystemEvent(SystemKind::kOffCpu, thread, start_ns, end_ns);
  event.off_cpu = {};
  event.off_cpu.reason = reason;
  event.off_cpu.run_queue_ns = run_queue_ns;
  event.off_cpu.call = call.empty() ? -1 : SystemCallNumber(call);
  return event;
}

inline SystemEvent MakeFault(ThreadIndex thread, bool major, int64_t start_ns, int64_t end_ns) {
  SystemEvent event = MakeSystemEvent(SystemKind::kFault, thread, start_ns, end_ns);
  event.fault = {};
  event.fault.major = major;
  event.fault.area = FaultArea::kFile;
  return event;
}

inline SystemEvent MakeRequest(ThreadIndex thread, uint16_t opcode, int64_t start_ns,
                               int64_t end_ns, int64_t result) {
  SystemEvent event = MakeSystemEvent(SystemKind::kRequest, thread, start_ns, end_ns);
  event.request = {};
  event.request.opcode = opcode;
  event.request.result = result;
  return event;
}

}  // namespace proftrace
