// The parts that an injection has put into a process: its region (injection_code.h), and the jumps
// that lead there. The object is made by an injection, or for the parts that a killed injection has
// left.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "symbols/process/process_maps.h"
#include "userspace/inject/loader_places.h"
#include "userspace/inject/patch_site.h"
#include "userspace/inject/quiet_moment.h"
#include "userspace/inject/stopped_threads.h"
#include "userspace/inject/writable_memory.h"
#include "userspace/model/ids.h"

namespace proftrace {

inline constexpr uint64_t kRegionBytes = 2 * 4096 + 512 * 1024;

// Returns an address at which a region may be mapped: free memory within reach of a jump from each
// site. Returns 0 if there is none.
uint64_t FindRoom(const std::vector<Mapping>& mappings, const std::vector<PatchSite>& sites);

class InjectionRegion {
 public:
  InjectionRegion(Pid pid, const WritableMemory& memory, SystemCallPlaces system_calls)
      : pid_(pid), memory_(memory), system_calls_(system_calls) {}

  // Returns the regions of injections that did not end, with the sites that still lead to them.
  // Fails if the proftrace that owns one of them still runs.
  static absl::StatusOr<std::vector<InjectionRegion>> FindLeftovers(
      Pid pid, const WritableMemory& memory, const std::vector<Mapping>& mappings,
      SystemCallPlaces system_calls);

  // Maps the region at `address` and makes the memfd for the library, by one thread that is stopped
  // only for these calls. `name` is the memfd's name; if it is empty, no memfd is made.
  absl::Status Map(uint64_t address, const std::string& name);
  // Writes code, stubs and `data` (INJECT_PAGE_BYTES bytes) into the region.
  absl::Status Fill(const std::vector<PatchSite>& sites, std::vector<uint8_t> data);
  // Writes the jumps, with all threads stopped. Leaves out a site whose code has changed since it
  // was chosen.
  absl::Status Patch();
  // Takes the jumps away, and the region as soon as no thread is in it. Text pages that equal their
  // file become the file's again. Fails with a sentence that says what stays. The error is
  // kUnavailable, with INJECT_WORKING in data(), while a thread still does the work; no other
  // thread can begin it any more, and Remove() may be called again.
  absl::Status Remove();

  // Returns the state, INJECT_…. Fails if the process is gone or runs another program.
  absl::StatusOr<uint32_t> State() const;
  // Returns the data page as Remove() found it with all threads stopped.
  const std::vector<uint8_t>& data() const { return data_; }
  uint64_t address() const { return address_; }
  int library_fd() const { return library_fd_; }
  const StopTimes& stops() const { return stops_; }

 private:
  bool HasInside(uint64_t address) const {
    return address >= address_ && address < address_ + kRegionBytes;
  }
  bool IsStillThere() const;
  // Whether there is a jump to this region, or the rest of one.
  bool IsPatched(const PatchSite& site) const;
  // Puts the site's bytes back as in the file, except breakpoints of others.
  bool PutBack(const PatchSite& site) const;
  bool LeadsNowhere() const;
  absl::Status WithAllStopped(const std::function<bool(uint64_t)>& is_in_the_way,
                              const std::function<absl::Status(QuietMoment*)>& work);
  absl::Status MapBy(StoppedThreads* threads, uint64_t address, const std::string& name);
  absl::Status Unmap(QuietMoment* moment);

  Pid pid_;
  const WritableMemory& memory_;
  SystemCallPlaces system_calls_;
  uint64_t address_ = 0;  // 0: the region is not mapped
  int library_fd_ = -1;   // the memfd's number in the process; -1: there is none
  std::vector<PatchSite> sites_;
  std::vector<uint64_t> stubs_;  // the stubs' addresses, one for each site
  std::vector<uint8_t> data_;
  StopTimes stops_;
};

}  // namespace proftrace
