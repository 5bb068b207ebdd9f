#include "userspace/model/system_event.h"

#include <iterator>

namespace proftrace {
namespace {

constexpr std::string_view kWaitReasonNames[] = {"preempted", "lock",  "io",     "poll",  "sleep",
                                                 "fault",     "child", "signal", "other", "new",
                                                 "event",     "gil",   "stopped"};
static_assert(std::size(kWaitReasonNames) == kWaitReasons);
constexpr std::string_view kFaultAreaNames[] = {"unknown", "heap", "stack", "file", "anonymous"};

}  // namespace

const SystemFile* SystemTables::File(SystemFileId id) const {
  return id != kNoSystemFile && Raw(id) < files.size() ? &files[Raw(id)] : nullptr;
}

const SystemPaths* SystemTables::Paths(SystemPathsId id) const {
  return id != kNoSystemPaths && Raw(id) < paths.size() ? &paths[Raw(id)] : nullptr;
}

std::string_view SystemCategoryName(SystemKind kind) {
  switch (kind) {
    case SystemKind::kCall:
      return "syscall";
    case SystemKind::kOffCpu:
      return "sched";
    case SystemKind::kFault:
      return "fault";
    case SystemKind::kRequest:
      return "io_request";
  }
  return "";
}

std::string_view WaitReasonName(WaitReason reason) {
  return kWaitReasonNames[static_cast<size_t>(reason)];
}

std::string_view FaultAreaName(FaultArea area) {
  return kFaultAreaNames[static_cast<size_t>(area)];
}

}  // namespace proftrace
