#include "userspace/inject/standstill.h"

#include <absl/strings/str_cat.h>
#include <unistd.h>

#include <algorithm>

#include "symbols/process/control_groups.h"
#include "symbols/process/process_maps.h"
#include "userspace/base/clock.h"

namespace proftrace {
namespace {

constexpr size_t kMostStateBytes = 8192;
constexpr useconds_t kBetweenLooksUs = 5000;
constexpr useconds_t kThawLookUs = 20'000;

struct ThreadLook {
  char state = 0;  // of /proc/PID/status: 'R', 'S', 'D', 'T', 't', …
  std::string tracer;
  std::string switches;  // how often the thread has left a processor

  bool operator==(const ThreadLook&) const = default;
};

ThreadLook LookAtThread(Pid pid) {
  const std::string status =
      ReadSmallFile(absl::StrCat("/proc/", Raw(LivingThread(pid)), "/status"), kMostStateBytes);
  ThreadLook state;
  const std::string_view letter = StatusValue(status, "State");
  if (!letter.empty()) state.state = letter.front();
  state.tracer = StatusValue(status, "TracerPid");
  state.switches = std::string(StatusValue(status, "voluntary_ctxt_switches")) + "+" +
                   std::string(StatusValue(status, "nonvoluntary_ctxt_switches"));
  return state;
}

// Returns the command that thaws a frozen group; empty: the group is not frozen. The groups above
// are looked at as well, because a frozen group freezes the groups below it.
std::string HowToThaw(const ControlGroup& group) {
  for (const std::string& folder : group.folders) {
    if (group.is_v2) {
      if (ReadSmallFile(folder + "/cgroup.freeze", 8).starts_with('1')) {
        return absl::StrCat("echo 0 > ", folder, "/cgroup.freeze");
      }
    } else if (ReadSmallFile(folder + "/freezer.self_freezing", 8).starts_with('1')) {
      return absl::StrCat("echo THAWED > ", folder, "/freezer.state");
    }
  }
  return "";
}

std::optional<Standstill> FindFrozen(Pid pid) {
  // A host with both versions may freeze by either.
  for (const char* controller : {"freezer", ""}) {
    const std::optional<ControlGroup> group = FindControlGroup(pid, controller);
    if (!group.has_value()) continue;
    const std::string thaw = HowToThaw(*group);
    if (thaw.empty()) continue;
    return Standstill{
        StandstillKind::kFrozen,
        absl::StrCat("PID ", Raw(pid), " is frozen by its control group ", group->name,
                     " (docker pause, a suspended job): thaw it ('docker unpause', or ", thaw,
                     ")")};
  }
  // The group may have no folder that we can see. The kernel function that the thread is in then
  // tells whether it is frozen.
  const std::string function =
      ReadSmallFile(absl::StrCat("/proc/", Raw(LivingThread(pid)), "/wchan"), 64);
  if (function != "__refrigerator" && function != "do_freezer_trap") return std::nullopt;
  return Standstill{StandstillKind::kFrozen,
                    absl::StrCat("PID ", Raw(pid),
                                 " is frozen by its control group (docker pause, a suspended job): "
                                 "thaw it ('docker unpause')")};
}

}  // namespace

std::optional<Standstill> FindStandstill(Pid pid) {
  if (std::optional<Standstill> frozen = FindFrozen(pid); frozen.has_value()) return frozen;
  const ThreadLook state = LookAtThread(pid);
  const std::string who = absl::StrCat("PID ", Raw(pid));
  if (state.state == 'T') {
    return Standstill{StandstillKind::kStopped,
                      absl::StrCat(who, " is stopped by a signal (SIGSTOP, Ctrl-Z): 'kill -CONT ",
                                   Raw(pid), "' lets it go on")};
  }
  if (state.state != 't') return std::nullopt;
  // A thread of this program may hold the process for some microseconds.
  const bool is_ours = access(absl::StrCat("/proc/self/task/", state.tracer).c_str(), F_OK) == 0;
  if (is_ours || state.tracer == "0" || state.tracer.empty()) return std::nullopt;
  usleep(kBetweenLooksUs);
  if (LookAtThread(pid) != state) return std::nullopt;
  std::string name = ReadSmallFile(absl::StrCat("/proc/", state.tracer, "/comm"), 64);
  name.erase(std::remove(name.begin(), name.end(), '\n'), name.end());
  return Standstill{StandstillKind::kHeld,
                    absl::StrCat(who, " is held by PID ", state.tracer, " (", name,
                                 ", a debugger or tracer): let it go on there")};
}

void AwaitThaw(Pid pid, int64_t deadline_ns) {
  while (MonotonicNs() < deadline_ns && FindFrozen(pid).has_value()) usleep(kThawLookUs);
}

}  // namespace proftrace
