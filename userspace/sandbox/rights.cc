#include "userspace/sandbox/rights.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

#include "userspace/base/own_path.h"
#include "userspace/base/unique_fd.h"

namespace proftrace {
namespace {

constexpr rlim_t kLeastBytes = rlim_t{1} << 30;

rlim_t MappedBytes() {
  char text[64] = "";
  const UniqueFd file(open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
  if (file.valid() && read(file.get(), text, sizeof(text) - 1) < 0) return 0;
  return static_cast<rlim_t>(std::strtoull(text, nullptr, 10)) *
         static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

// Lowers the soft limit to `limit`, and the hard limit to `limit` + `room`.
void Lower(__rlimit_resource which, rlim_t limit, rlim_t room = 0) {
  struct rlimit now {};
  if (getrlimit(which, &now) != 0) return;
  now.rlim_cur = std::min(now.rlim_cur, limit);
  now.rlim_max = std::min(now.rlim_max, limit + room);
  setrlimit(which, &now);
}

struct Needed {
  int capability;
  const char* name;
  const char* short_name;  // as --cap-add takes it
};
// The capabilities that eBPF needs from Linux 5.15 on. Reading the maps of other users' processes
// also needs CAP_SYS_PTRACE.
constexpr std::array<Needed, 2> kForBpf = {
    {{CAP_BPF, "CAP_BPF", "BPF"}, {CAP_PERFMON, "CAP_PERFMON", "PERFMON"}}};
constexpr int kRaised[] = {CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE, CAP_CHECKPOINT_RESTORE,
                           CAP_SYS_ADMIN};

uint64_t EffectiveCapabilities() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3]{};
  if (syscall(SYS_capget, &header, sets) != 0) return 0;
  return uint64_t{sets[1].effective} << 32 | sets[0].effective;
}

}  // namespace

void RaiseCapabilities() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3]{};
  if (syscall(SYS_capget, &header, sets) != 0) return;
  for (const int capability : kRaised) {
    __user_cap_data_struct& set = sets[CAP_TO_INDEX(capability)];
    set.effective |= set.permitted & CAP_TO_MASK(capability);
  }
  (void)syscall(SYS_capset, &header, sets);
}

bool HasCapability(int capability) { return (EffectiveCapabilities() >> capability & 1) != 0; }

std::string HowToGetRights() {
  std::string names;
  std::string options;
  for (const Needed& needed : kForBpf) {
    if (HasCapability(needed.capability)) continue;
    names += (names.empty() ? "" : " and ") + std::string(needed.name);
    options += std::string(" --cap-add=") + needed.short_name;
  }
  if (!HasCapability(CAP_SYS_PTRACE)) {
    names +=
        (names.empty() ? "" : ", and ") + std::string("CAP_SYS_PTRACE for jobs of other users");
    options += " --cap-add=SYS_PTRACE";
  }
  if (names.empty()) {
    return "it has the capabilities that this needs, so a seccomp filter, a security module or a "
           "user namespace is in the way";
  }
  if (geteuid() == 0) {
    return "root lacks " + names + " here: start the container with" + options;
  }
  return "run 'sudo " + OwnPath() + "', or give it " + names +
         ": sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace+p " + OwnPath();
}

bool NoNewRights() { return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0; }

bool DropCapabilities(std::initializer_list<int> kept) {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3]{};
  if (syscall(SYS_capget, &header, sets) != 0) return false;
  uint64_t mask = 0;
  for (const int capability : kept) mask |= uint64_t{1} << capability;
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  // Dropping from the bounding set needs CAP_SETPCAP. Without that capability the call fails, which
  // does no harm.
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; ++capability) {
    if ((mask >> capability & 1) == 0) (void)prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  }
  for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; ++i) {
    const auto word = static_cast<uint32_t>(mask >> (32 * i));
    sets[i].permitted &= word;
    sets[i].effective = sets[i].permitted;
    sets[i].inheritable = 0;
  }
  return syscall(SYS_capset, &header, sets) == 0;
}

bool KeepRightToRead() {
  return geteuid() == 0 ? DropCapabilities({CAP_DAC_READ_SEARCH}) : DropCapabilities({});
}

void LimitUse(int64_t cpu_s) {
  Lower(RLIMIT_CORE, 0);
  struct rusage use {};
  getrusage(RUSAGE_SELF, &use);
  const int64_t used_s = use.ru_utime.tv_sec + use.ru_stime.tv_sec;
  // SIGXCPU comes at the soft limit, and says what happened. At the hard limit the kernel sends
  // SIGKILL, and looks at the hard limit first.
  Lower(RLIMIT_CPU, static_cast<rlim_t>(used_s + cpu_s), /*room=*/1);
  const auto memory =
      static_cast<rlim_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
  Lower(RLIMIT_AS, MappedBytes() + std::max(memory, kLeastBytes));
}

}  // namespace proftrace
