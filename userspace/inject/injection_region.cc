#include "userspace/inject/injection_region.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "symbols/plan/process.h"
#include "symbols/x86/instruction.h"
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/inject/injection_calls.h"
#include "userspace/inject/injection_code.h"
#include "userspace/inject/jump_distance.h"
#include "userspace/inject/quiet_moment.h"
#include "userspace/inject/remote_calls.h"
#include "userspace/inject/room.h"
#include "userspace/inject/torn_jump.h"

namespace proftrace {
namespace {

static_assert(kRegionBytes == 2 * INJECT_PAGE_BYTES + INJECT_STACK_BYTES);

constexpr uint64_t kMapFixedNoReplace = 0x100000;
constexpr uint64_t kMemfdFlags = 1 | 2;   // MFD_CLOEXEC | MFD_ALLOW_SEALING
constexpr uint64_t kMemfdNoexecSeal = 8;  // Linux 6.3: where sysctl vm.memfd_noexec demands it

// Returns when a process was started, in ticks; 0: there is no such process.
uint64_t StartTicks(uint32_t pid) {
  const absl::StatusOr<ProcessInfo> info = ReadProcessInfo(Pid{pid});
  return info.ok() ? info->start_ticks : 0;
}

absl::Status Refused(const char* call, int64_t result) {
  return Fail(ExitCode::kNotPermitted, std::string("the kernel refused it ") + call + ": " +
                                           ErrnoText(static_cast<int>(-result)));
}

// Returns the addresses of the stubs of `sites` in a region at `address`; empty if they do not fit
// at addresses that jumps may lead to.
std::vector<uint64_t> PlaceStubs(uint64_t address, const std::vector<PatchSite>& sites) {
  const uint64_t page = address + INJECT_PAGE_BYTES;
  uint64_t next =
      page + static_cast<uint64_t>(proftrace_injection_code_end - proftrace_injection_code);
  std::vector<uint64_t> stubs;
  for (const PatchSite& site : sites) {
    const uint64_t stub = NextSafeTarget(site.address + kJumpBytes, next, 1);
    if (stub + StubBytes(site) > page + INJECT_PAGE_BYTES) return {};
    stubs.push_back(stub);
    next = stub + StubBytes(site);
  }
  return stubs;
}

}  // namespace

uint64_t FindRoom(const std::vector<Mapping>& mappings, const std::vector<PatchSite>& sites) {
  uint64_t lowest = ~uint64_t{0};
  uint64_t highest = 0;
  for (const PatchSite& site : sites) {
    lowest = std::min(lowest, site.address);
    highest = std::max(highest, site.end());
  }
  return FindRoom(mappings, lowest, highest, kRegionBytes, [&sites](uint64_t address) {
    return sites.empty() || !PlaceStubs(address, sites).empty();
  });
}

bool InjectionRegion::IsStillThere() const {
  uint64_t magic = 0;
  return address_ != 0 && memory_.ReadValue(address_ + INJECT_MAGIC, &magic) &&
         magic == INJECT_MAGIC_VALUE;
}

absl::StatusOr<uint32_t> InjectionRegion::State() const {
  uint32_t state = INJECT_IDLE;
  if (!IsStillThere() || !memory_.ReadValue(address_ + INJECT_STATE, &state)) {
    return Fail(ExitCode::kNoTarget, "PID " + std::to_string(Raw(pid_)) +
                                         " ended, or runs another program, during the injection");
  }
  return state;
}

absl::Status InjectionRegion::Map(uint64_t address, const std::string& name) {
  return StoppedThreads::Use(
      pid_, [&](StoppedThreads* threads) { return MapBy(threads, address, name); });
}

absl::Status InjectionRegion::MapBy(StoppedThreads* threads, uint64_t address,
                                    const std::string& name) {
  absl::Status status = CheckOtherFilters(pid_, threads, system_calls_.call);
  if (!status.ok()) return status;
  const Hurry hurry;
  status = threads->StopOne(MonotonicNs() + kOneStopLimitNs);
  if (!status.ok()) return status;
  const StoppedThread& thread = threads->threads().front();
  status = CheckInjectionCalls(pid_, thread.tid, system_calls_.call);
  if (!status.ok()) return status;
  absl::StatusOr<RemoteCalls> calls = RemoteCalls::Begin(thread, memory_, system_calls_);
  if (!calls.ok()) return calls.status();
  absl::StatusOr<int64_t> result = calls->Call(
      SYS_mmap, {address, kRegionBytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | kMapFixedNoReplace, kNoFile, 0});
  if (!result.ok()) return result.status();
  const absl::Status taken = absl::AbortedError("the memory near the code was taken meanwhile");
  if (*result == -EEXIST) return taken;
  if (*result < 0) return Refused("memory", *result);
  address_ = static_cast<uint64_t>(*result);
  if (address_ != address) {  // before Linux 4.17 the kernel ignores MAP_FIXED_NOREPLACE
    const uint64_t elsewhere = std::exchange(address_, 0);
    (void)calls->Call(SYS_munmap, {elsewhere, kRegionBytes, 0, 0, 0, 0});
    return taken;
  }
  memory_.WriteValue(address_ + INJECT_OWNER, static_cast<uint32_t>(getpid()));
  memory_.WriteValue(address_ + INJECT_OWNER_START, StartTicks(static_cast<uint32_t>(getpid())));
  memory_.WriteValue(address_ + INJECT_LIBRARY_FD, int32_t{-1});
  memory_.WriteValue<uint64_t>(address_ + INJECT_MAGIC, INJECT_MAGIC_VALUE);
  const auto undo = [&](absl::Status reason) {
    (void)calls->Call(SYS_munmap, {address_, kRegionBytes, 0, 0, 0, 0});
    address_ = 0;
    return reason;
  };
  result = calls->Call(SYS_mprotect, {address_ + INJECT_PAGE_BYTES, INJECT_PAGE_BYTES,
                                      PROT_READ | PROT_EXEC, 0, 0, 0});
  if (!result.ok()) return result.status();
  if (*result < 0) return undo(Refused("memory for code", *result));
  result = calls->Call(SYS_madvise, {address_, INJECT_PAGE_BYTES, MADV_WIPEONFORK, 0, 0, 0});
  if (!result.ok()) return result.status();
  if (*result < 0) return undo(Refused("memory that forks do not inherit", *result));
  if (name.empty()) return absl::OkStatus();
  if (!memory_.Write(address_ + INJECT_ERROR, name.c_str(), name.size() + 1)) {
    return undo(absl::UnavailableError("its memory cannot be written"));
  }
  result = calls->Call(SYS_memfd_create, {address_ + INJECT_ERROR, kMemfdFlags, 0, 0, 0, 0});
  if (result.ok() && *result == -EACCES) {
    result = calls->Call(SYS_memfd_create,
                         {address_ + INJECT_ERROR, kMemfdFlags | kMemfdNoexecSeal, 0, 0, 0, 0});
  }
  if (!result.ok()) return result.status();
  if (*result < 0) return undo(Refused("a memfd", *result));
  library_fd_ = static_cast<int>(*result);
  memory_.WriteValue(address_ + INJECT_LIBRARY_FD, int32_t{library_fd_});
  return absl::OkStatus();
}

absl::Status InjectionRegion::Fill(const std::vector<PatchSite>& sites, std::vector<uint8_t> data) {
  std::vector<uint8_t> code(proftrace_injection_code, proftrace_injection_code_end);
  const uint64_t code_address = address_ + INJECT_PAGE_BYTES;
  std::vector<uint64_t> addresses;
  stubs_ = PlaceStubs(address_, sites);
  if (stubs_.size() != sites.size() || sites.size() > INJECT_MOST_SITES) {
    return Fail(ExitCode::kBug, "the code of an injection has no room in its page");
  }
  for (size_t i = 0; i < sites.size(); ++i) {
    const absl::StatusOr<std::vector<uint8_t>> bytes = MakeStub(sites[i], stubs_[i], code_address);
    if (!bytes.ok()) return bytes.status();
    code.resize(stubs_[i] - code_address, kBreakpointOpcode);
    code.insert(code.end(), bytes->begin(), bytes->end());
    addresses.push_back(sites[i].address);
  }
  std::memcpy(data.data() + INJECT_SITES, addresses.data(), addresses.size() * sizeof(uint64_t));
  // These fields are known to this class alone. The magic number is in the page already.
  const uint64_t magic = INJECT_MAGIC_VALUE;
  const auto owner = static_cast<uint32_t>(getpid());
  const uint64_t owner_start = StartTicks(owner);
  const int32_t library_fd = library_fd_;
  const uint64_t stack_top = address_ + kRegionBytes;
  std::memcpy(data.data() + INJECT_STACK_TOP, &stack_top, sizeof(stack_top));
  std::memcpy(data.data() + INJECT_OWNER_START, &owner_start, sizeof(owner_start));
  std::memcpy(data.data() + INJECT_MAGIC, &magic, sizeof(magic));
  std::memcpy(data.data() + INJECT_OWNER, &owner, sizeof(owner));
  std::memcpy(data.data() + INJECT_LIBRARY_FD, &library_fd, sizeof(library_fd));
  if (!memory_.Write(code_address, code.data(), code.size()) ||
      !memory_.Write(address_, data.data(), data.size())) {
    return absl::UnavailableError("its memory cannot be written");
  }
  sites_ = sites;
  return absl::OkStatus();
}

bool InjectionRegion::IsPatched(const PatchSite& site) const {
  JumpPlace now;
  JumpPlace file;
  std::copy_n(site.original.begin(), file.size(), file.begin());
  return memory_.Read(site.address, now.data(), now.size()) &&
         MayBeJumpInto(address_, address_ + kRegionBytes, site.address, now, file);
}

bool InjectionRegion::PutBack(const PatchSite& site) const {
  std::array<uint8_t, kMostPatchBytes> now{};
  if (!memory_.Read(site.address, now.data(), site.size)) return false;
  std::array<uint8_t, kMostPatchBytes> after = site.original;
  JumpPlace jump;
  JumpPlace file;
  std::copy_n(now.begin(), jump.size(), jump.begin());
  std::copy_n(site.original.begin(), file.size(), file.begin());
  const JumpPlace restored =
      WithoutJump(address_, address_ + kRegionBytes, site.address, jump, file);
  std::copy(restored.begin(), restored.end(), after.begin());
  for (size_t i = restored.size(); i < site.size; ++i) {
    if (now[i] == kBreakpointOpcode) after[i] = now[i];
  }
  return WriteAround(memory_, site.address, std::span(now).first(site.size),
                     std::span(after).first(site.size));
}

bool InjectionRegion::LeadsNowhere() const {
  return std::none_of(sites_.begin(), sites_.end(),
                      [this](const PatchSite& site) { return IsPatched(site); });
}

absl::Status InjectionRegion::WithAllStopped(
    const std::function<bool(uint64_t)>& is_in_the_way,
    const std::function<absl::Status(QuietMoment*)>& work) {
  return AtQuietMoment(
      pid_, memory_, is_in_the_way,
      [this, &work](QuietMoment* moment) {
        return IsStillThere() ? work(moment) : State().status();
      },
      &stops_);
}

absl::Status InjectionRegion::Patch() {
  const auto is_in_the_way = [this](uint64_t address) {
    return std::any_of(sites_.begin(), sites_.end(),
                       [address](const PatchSite& site) { return site.HasInside(address); });
  };
  return WithAllStopped(is_in_the_way, [this](QuietMoment*) {
    for (size_t i = 0; i < sites_.size(); ++i) {
      const absl::StatusOr<std::vector<uint8_t>> jump = JumpTo(sites_[i], stubs_[i]);
      if (!jump.ok()) return jump.status();
      // A site is left alone if its code has been changed since FindSites() has read it.
      uint8_t now[kMostPatchBytes];
      if (!memory_.Read(sites_[i].address, now, sites_[i].size) ||
          std::memcmp(now, sites_[i].original.data(), sites_[i].size) != 0) {
        continue;
      }
      if (!memory_.Write(sites_[i].address, jump->data(), jump->size())) {
        return absl::UnavailableError("its code cannot be written to");
      }
    }
    return absl::OkStatus();
  });
}

absl::Status InjectionRegion::Unmap(QuietMoment* moment) {
  // The process may have got a seccomp filter since the region was mapped.
  const absl::StatusOr<StoppedThread> thread =
      moment->ReleaseAllButOne([this](const StoppedThread& one) {
        return CheckRemovalCalls(pid_, one.tid, system_calls_.call);
      });
  if (!thread.ok()) return thread.status();
  absl::StatusOr<RemoteCalls> calls = RemoteCalls::Begin(*thread, memory_, system_calls_);
  if (!calls.ok()) return calls.status();
  int32_t library_fd = -1;
  memory_.ReadValue(address_ + INJECT_LIBRARY_FD, &library_fd);
  const bool is_loaded = State().value_or(INJECT_IDLE) >= INJECT_DONE;
  if (library_fd >= 0 && !is_loaded) {
    (void)calls->Call(SYS_close, {static_cast<uint64_t>(library_fd), 0, 0, 0, 0, 0});
  }
  const absl::StatusOr<int64_t> unmapped =
      calls->Call(SYS_munmap, {address_, kRegionBytes, 0, 0, 0, 0});
  // A call whose return was not seen may have been made all the same.
  if (!unmapped.ok() && IsStillThere()) return unmapped.status();
  address_ = 0;
  // A page that equals the file's again holds nobody's changes, so the process's copy of it is
  // dropped.
  const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(pid_);
  for (const PatchSite& site : sites_) {
    const uint64_t page = site.address & ~uint64_t{INJECT_PAGE_BYTES - 1};
    std::vector<uint8_t> now(INJECT_PAGE_BYTES);
    std::vector<uint8_t> file(INJECT_PAGE_BYTES);
    if (!mappings.ok() || !memory_.Read(page, now.data(), now.size()) ||
        !ReadMappedFile(pid_, *mappings, page, file.data(), file.size()) || now != file) {
      continue;
    }
    (void)calls->Call(SYS_madvise, {page, INJECT_PAGE_BYTES, MADV_DONTNEED, 0, 0, 0});
  }
  return absl::OkStatus();
}

absl::Status InjectionRegion::Remove() {
  if (address_ == 0) return absl::OkStatus();
  // The jumps are removed first, so that threads that are in the region leave it.
  uint32_t state = INJECT_IDLE;
  absl::Status status = WithAllStopped(nullptr, [&](QuietMoment*) {
    data_.assign(INJECT_PAGE_BYTES, 0);
    memory_.Read(address_, data_.data(), data_.size());
    std::memcpy(&state, data_.data() + INJECT_STATE, sizeof(state));
    if (state == INJECT_ARMED) memory_.WriteValue(address_ + INJECT_STATE, uint32_t{INJECT_IDLE});
    for (const PatchSite& site : sites_) {
      if (IsPatched(site) && !PutBack(site)) {
        return absl::UnavailableError(
            "its code could not be written to: a jump of ours stays, and " +
            std::to_string(kRegionBytes / 1024) + " KiB that it leads to");
      }
    }
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  const std::string stays =
      std::to_string(kRegionBytes / 1024) + " KiB of memory stay mapped in it";
  if (state == INJECT_WORKING) {
    return absl::UnavailableError("a thread of it is still loading the library; " + stays);
  }
  status = WithAllStopped(
      [this](uint64_t address) { return HasInside(address); },
      [this](QuietMoment* moment) {
        return LeadsNowhere() ? Unmap(moment)
                              : absl::UnavailableError("its code leads there all the same");
      });
  const std::string message = stays + ": " + std::string(status.message());
  if (absl::IsUnavailable(status)) return absl::UnavailableError(message);
  const bool is_refused = ExitCodeOf(status) == ExitCode::kNotPermitted;
  return is_refused ? Fail(ExitCode::kNotPermitted, message) : status;
}

absl::StatusOr<std::vector<InjectionRegion>> InjectionRegion::FindLeftovers(
    Pid pid, const WritableMemory& memory, const std::vector<Mapping>& mappings,
    SystemCallPlaces system_calls) {
  std::vector<InjectionRegion> leftovers;
  for (const Mapping& mapping : mappings) {
    if (mapping.inode != 0 || mapping.executable ||
        mapping.end - mapping.start != INJECT_PAGE_BYTES) {
      continue;
    }
    InjectionRegion region(pid, memory, system_calls);
    region.address_ = mapping.start;
    if (!region.IsStillThere()) continue;
    uint32_t owner = 0;
    uint64_t owner_start = 0;
    memory.ReadValue(region.address_ + INJECT_OWNER, &owner);
    memory.ReadValue(region.address_ + INJECT_OWNER_START, &owner_start);
    if (owner != static_cast<uint32_t>(getpid()) && owner != 0 &&
        StartTicks(owner) == owner_start) {
      return Fail(ExitCode::kNotPermitted, "another proftrace (PID " + std::to_string(owner) +
                                               ") is putting its agent into it");
    }
    uint64_t addresses[INJECT_MOST_SITES] = {};
    memory.Read(region.address_ + INJECT_SITES, addresses, sizeof(addresses));
    for (const uint64_t address : addresses) {
      if (address == 0) break;
      // The memory is the target's, so only a jump that leads from a file's code into the region is
      // believed.
      PatchSite site;
      site.address = address;
      site.size = kJumpBytes;
      if (!ReadMappedFile(pid, mappings, address, site.original.data(), kMostPatchBytes) ||
          !region.IsPatched(site)) {
        continue;
      }
      uint8_t now[kMostPatchBytes];
      if (!memory.Read(address, now, sizeof(now))) continue;
      while (site.size < kMostPatchBytes && now[site.size] == 0x90 &&
             site.original[site.size] != 0x90) {
        ++site.size;
      }
      region.sites_.push_back(site);
    }
    leftovers.push_back(std::move(region));
  }
  return leftovers;
}

}  // namespace proftrace
