// The code side of a patched process: where regions for trampolines lie, what is in them, and the
// jumps. Reads and writes the process's memory; stops nobody.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "symbols/process/process_maps.h"
#include "userspace/inject/writable_memory.h"
#include "userspace/model/ids.h"
#include "userspace/patch/patch_ring.h"
#include "userspace/patch/recorder_tables.h"
#include "userspace/patch/trampoline.h"

namespace proftrace {

// Whether a region is mapped as one of ours is: in one piece before its code is made executable,
// and in two then. What a process's memory says of itself is only believed if the map says so, too.
bool IsRegionMapped(const AddressRange& range, const std::vector<Mapping>& mappings);
// Whether it is, and does not say itself that it is ours: not yet, or a fork has emptied its page.
bool IsUnclaimedRegion(const WritableMemory& memory, const AddressRange& range,
                       const std::vector<Mapping>& mappings);

class PatchedCode {
 public:
  struct Region {
    AddressRange range;         // its control page is at the begin, the recorder behind that
    std::vector<size_t> spots;  // indexes
    bool is_mapped = false;
    bool may_be_mapped = false;  // it was to be, and what came of that is not known
    uint64_t tables = 0;         // address of its copy of the recorder's tables
  };
  struct Refusal {
    size_t spot = 0;
    std::string reason;
  };

  PatchedCode(Pid pid, const WritableMemory& memory) : pid_(pid), memory_(memory) {}

  // Sets what the cookies of spots count, and which of the signatures autograd nodes have (0 =
  // none). To be called before PlaceRegions().
  void SetTables(RecorderTables tables, uint16_t node_signature) {
    tables_ = std::move(tables);
    node_signature_ = node_signature;
  }
  // Sets the facts that regions know which are claimed from here on, and those that are there.
  bool SetFacts(const JobFacts& facts);
  const JobFacts& facts() const { return facts_; }
  // Chooses where the regions go, in free memory of `mappings`. Spots without room are refused.
  void PlaceRegions(std::vector<PatchSpot> spots, const std::vector<Mapping>& mappings);
  std::vector<Region>& regions() { return regions_; }
  const std::vector<PatchSpot>& spots() const { return spots_; }
  static constexpr char kNoRoom[] = "there is no free memory within 2 GiB of the code";
  // Says why spots have no jump, each once.
  const std::vector<Refusal>& refused() const { return refused_; }
  uint64_t trampoline_bytes() const { return trampoline_bytes_; }

  // Gives a forked child what its parent had.
  void TakeFrom(const PatchedCode& parent);
  // Takes over code of the same process whose jumps were put in by itself. Its facts are these from
  // here on.
  void Adopt(const PatchedCode& other);
  // Whether each region's first jump is there: none was written after a fork, or went with the
  // library that it was in.
  bool HasJumpOfEachRegion() const;
  // Takes over what an earlier run has left in the process, as far as it is true: jumps into one of
  // the `regions`, over code of files, and pages that had some. For RemoveJumps(), RestoredRuns().
  // False: code at one of the `jumps` is neither, and may lead there all the same.
  [[nodiscard]] bool TakeOver(const std::vector<AddressRange>& regions,
                              const std::vector<uint64_t>& jumps,
                              const std::vector<Mapping>& mappings);

  // Makes a region that has just been mapped known as ours, before anything else is done to it.
  bool Claim(const Region& region) const;
  // Whether a region says whose it is: that of a forked child does not (MADV_WIPEONFORK).
  bool IsClaimed() const;
  // Whether the regions are still there: the process goes on with the same program.
  bool IsStillThere() const;
  // Looks which of the regions that may be mapped are, while no thread runs.
  void SeeWhatIsMapped();
  // Fills the regions, which are mapped now; the process goes on. `touches_pages`: and makes the
  // pages its own where jumps will be, which must not be unmapped meanwhile.
  absl::Status WriteTrampolines(bool touches_pages = true);
  // Writes the jumps, and returns how many there are. All threads stand still for this and the next
  // ones.
  size_t WriteJumps();
  // `ring`: what the recorders' control pages say of it; 0 = recording is off. Where Python's end
  // waits for those who read, it knows the ring until the regions are gone.
  bool Publish(uint64_t ring) const;
  size_t CountJumps() const;
  // Removes the jumps, and what is left of those that somebody else has put bytes of the file back
  // into. `kept`: the address of one that stays. False: something could not be written back, or
  // somebody else has written other code there, which may lead to a region.
  bool RemoveJumps(uint64_t kept = 0);

  // Spots that have a jump now.
  std::vector<size_t> WrittenSpots() const;
  // Spots whose code was not as in the file, but for a breakpoint (the kernel's probes are such).
  std::vector<size_t> ChangedSpots() const;
  // Returns where jumps are, or may be written.
  std::vector<uint64_t> JumpAddresses() const;
  // Whether a thread that goes on there would find itself inside of a jump.
  bool IsInsideJump(uint64_t address) const;
  bool IsInsideRegion(uint64_t address) const;
  // Pages that had jumps and are as in their files again, as runs, with pages between them that are
  // their file's.
  std::vector<AddressRange> RestoredRuns() const;

 private:
  struct Jump {
    size_t spot = 0;
    uint64_t address = 0;
    std::vector<uint8_t> bytes;     // of the jump
    std::vector<uint8_t> original;  // as many
    std::vector<uint8_t> window;    // by the file: what the trampoline has in place of it
    bool is_written = false;
    bool is_changed = false;  // by somebody else
  };
  // Pages side by side that jumps lie in.
  struct PageRun {
    uint64_t address = 0;
    uint64_t bytes = 0;
    size_t first_jump = 0;
    size_t jumps = 0;
    // The places where the file itself has bytes like a breakpoint; nullopt where it could not be
    // read.
    std::optional<std::vector<uint64_t>> like_breakpoints;
  };

  void Refuse(size_t spot, std::string reason) { refused_.push_back({spot, std::move(reason)}); }
  void FindRuns();
  // Whether somebody else may have breakpoints in the run, which has these bytes `now`.
  bool MayHaveBreakpoints(const PageRun& run, std::span<const uint8_t> now) const;
  // Has the run as in `after`; it was as in `before`. Breakpoints of others are not written again:
  // the kernel may take them out meanwhile, and one that belongs to nobody kills the job.
  bool RemoveJump(const Jump& jump, uint64_t kept) const;
  bool WriteRun(const PageRun& run, std::span<const uint8_t> before,
                std::span<const uint8_t> after) const;
  // Drops groups with a spot that has no trampoline, or whose code is not as in its file by now.
  void DropPartialGroups();
  // Makes pages the process's own by writing what is there: that takes its time before threads
  // stand still, and not then.
  void MakeOwnPages();

  Pid pid_;
  const WritableMemory& memory_;
  JobFacts facts_;
  RecorderTables tables_;
  uint16_t node_signature_ = 0;
  std::vector<PatchSpot> spots_;  // as far as PlaceRegions() was given them, ascending by address
  std::vector<Region> regions_;
  std::vector<Jump> jumps_;  // ascending by address
  std::vector<PageRun> runs_;
  std::vector<Refusal> refused_;
  uint64_t trampoline_bytes_ = 0;
};

}  // namespace proftrace
