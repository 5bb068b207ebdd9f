#include "userspace/aggregate/system_text.h"

#include "userspace/model/system_calls.h"

namespace proftrace {

std::string SystemEventName(const SystemEvent& event) {
  switch (event.kind) {
    case SystemKind::kCall:
      return SystemCallName(event.call.abi, event.call.number);
    case SystemKind::kOffCpu:
      return std::string(WaitReasonName(event.off_cpu.reason));
    case SystemKind::kFault:
      return event.fault.major ? "page fault (major)" : "page fault (minor)";
    case SystemKind::kRequest:
      return "io_uring " + RequestName(event.request.opcode);
  }
  return "";
}

}  // namespace proftrace
