// The code of a patched process: the places of the regions for trampolines, the regions' contents,
// and the jumps. Reads and writes the process's memory, but stops no thread.
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

// Whether a region is mapped as proftrace maps regions: in one piece until its code is made
// executable, and in two pieces afterwards. Statements in the process's own memory are believed
// only if the process's map agrees with them.
bool IsRegionMapped(const AddressRange& range, const std::vector<Mapping>& mappings);
// Whether a region is mapped as IsRegionMapped() says, but does not name its owner. Such a region
// has not been claimed yet, or a fork has wiped its control page.
bool IsUnclaimedRegion(const WritableMemory& memory, const AddressRange& range,
                       const std::vector<Mapping>& mappings);

class PatchedCode {
 public:
  struct Region {
    AddressRange range;         // control page, recorder, tables, trampolines
    std::vector<size_t> spots;  // indexes into spots()
    bool is_mapped = false;
    bool may_be_mapped = false;  // the call to map it was made, but its result is not known
    uint64_t tables = 0;         // address of the region's copy of the recorder's tables
  };
  struct Refusal {
    size_t spot = 0;
    std::string reason;
  };

  PatchedCode(Pid pid, const WritableMemory& memory) : pid_(pid), memory_(memory) {}

  // Sets the tables that the numbers in spots' cookies refer to, and the signature of autograd
  // nodes (0 = none). Must be called before PlaceRegions().
  void SetTables(RecorderTables tables, uint16_t node_signature) {
    tables_ = std::move(tables);
    node_signature_ = node_signature;
  }
  // Sets the facts of the job, in all mapped regions and for the regions that are claimed later.
  // Returns false if a region could not be written.
  bool SetFacts(const JobFacts& facts);
  const JobFacts& facts() const { return facts_; }
  // Chooses where the regions go, in free memory between `mappings`. Refuses the spots that find no
  // room.
  void PlaceRegions(std::vector<PatchSpot> spots, const std::vector<Mapping>& mappings);
  std::vector<Region>& regions() { return regions_; }
  const std::vector<PatchSpot>& spots() const { return spots_; }
  static constexpr char kNoRoom[] = "there is no free memory within 2 GiB of the code";
  // Returns the spots without a jump, each once, with the reason.
  const std::vector<Refusal>& refused() const { return refused_; }
  uint64_t trampoline_bytes() const { return trampoline_bytes_; }

  // Takes the regions, jumps and facts of the object of the process from which this object's
  // process was forked.
  void TakeFrom(const PatchedCode& parent);
  // Takes over the regions and jumps of another object for the same process, which has written them
  // itself. From here on these regions get this object's facts.
  void Adopt(const PatchedCode& other);
  // Whether the first written jump of each region is in the process. A jump is missing where it was
  // written into the parent after the fork, or went away with its library.
  bool HasJumpOfEachRegion() const;
  // Takes over the regions and jumps that an earlier run has left in the process, as far as that
  // run's statements are true: jumps over code of files that lead into one of the `regions`, and
  // pages that had jumps. This is for RemoveJumps() and RestoredRuns(). Returns false where the
  // code at one of the `jumps` is neither a jump of proftrace nor the file's code, and so may still
  // lead into a region.
  [[nodiscard]] bool TakeOver(const std::vector<AddressRange>& regions,
                              const std::vector<uint64_t>& jumps,
                              const std::vector<Mapping>& mappings);

  // Writes into a region that has just been mapped that it is proftrace's, before anything else is
  // done to the region.
  bool Claim(const Region& region) const;
  // Whether any region names its owner. The regions of a forked child do not (MADV_WIPEONFORK).
  bool IsClaimed() const;
  // Whether all mapped regions are still there, so that the process still runs the same program.
  bool IsStillThere() const;
  // Finds out which of the regions with may_be_mapped are mapped. No thread of the process may run
  // meanwhile.
  void SeeWhatIsMapped();
  // Fills the regions, which must be mapped, while the process keeps running. With `touches_pages`,
  // also makes the pages that get jumps the process's own; their libraries must not be unmapped
  // meanwhile.
  absl::Status WriteTrampolines(bool touches_pages = true);
  // Writes the jumps, and returns how many were written. All threads must stand still during this
  // call and the following ones.
  size_t WriteJumps();
  // Tells the recorders the address of the ring, in each region's control page; 0 turns recording
  // off. The jump at which Python's end waits for reading threads keeps the ring's address until
  // the regions are gone.
  bool Publish(uint64_t ring) const;
  size_t CountJumps() const;
  // Removes the jumps, and also the rest of a jump that somebody else has overwritten in part with
  // bytes of the file. The jump at address `kept` stays. Returns false if a place could not be
  // written back, or if somebody else has written other code there, which may lead into a region.
  bool RemoveJumps(uint64_t kept = 0);

  // Returns the indexes of the spots that have a jump now.
  std::vector<size_t> WrittenSpots() const;
  // Returns the indexes of the spots whose code differed from the file at WriteJumps().
  // Breakpoints, such as those of the kernel's probes, are no difference.
  std::vector<size_t> ChangedSpots() const;
  // Returns the addresses at which jumps are, or may be written.
  std::vector<uint64_t> JumpAddresses() const;
  // Whether a thread that continues at `address` would be inside of a jump.
  bool IsInsideJump(uint64_t address) const;
  bool IsInsideRegion(uint64_t address) const;
  // Returns runs of pages that had jumps and are equal to their files again. A run may include
  // pages in between that are not the process's own.
  std::vector<AddressRange> RestoredRuns() const;

 private:
  struct Jump {
    size_t spot = 0;
    uint64_t address = 0;
    std::vector<uint8_t> bytes;     // the jump itself
    std::vector<uint8_t> original;  // the file's bytes at the same place, as many as the jump has
    std::vector<uint8_t> window;    // the window's bytes in the file, which the trampoline runs
    bool is_written = false;
    bool is_changed = false;  // somebody else changed the code, so the jump was not written
  };
  // A run of neighbouring pages with jumps.
  struct PageRun {
    uint64_t address = 0;
    uint64_t bytes = 0;
    size_t first_jump = 0;
    size_t jumps = 0;
    // The offsets in the run at which the file itself has bytes like a breakpoint; nullopt: the
    // file could not be read.
    std::optional<std::vector<uint64_t>> like_breakpoints;
  };

  void Refuse(size_t spot, std::string reason) { refused_.push_back({spot, std::move(reason)}); }
  void FindRuns();
  // Whether somebody else may have breakpoints in the run, whose bytes are `now`.
  bool MayHaveBreakpoints(const PageRun& run, std::span<const uint8_t> now) const;
  // Puts the file's bytes back at one jump, unless its address is `kept`.
  bool RemoveJump(const Jump& jump, uint64_t kept) const;
  // Changes the run's bytes from `before` to `after`. Breakpoints of others are not written again,
  // because the kernel may take one out meanwhile, and a breakpoint that belongs to nobody kills
  // the job.
  bool WriteRun(const PageRun& run, std::span<const uint8_t> before,
                std::span<const uint8_t> after) const;
  // Drops each group that has a spot without a trampoline, or a spot whose code differs from its
  // file by now.
  void DropPartialGroups();
  // Makes the pages that get jumps the process's own, by writing the bytes that they have. So the
  // kernel copies these pages before threads stand still, and not while they do.
  void MakeOwnPages();

  Pid pid_;
  const WritableMemory& memory_;
  JobFacts facts_;
  RecorderTables tables_;
  uint16_t node_signature_ = 0;
  // The spots that PlaceRegions() was given, ascending by address; behind them, those of Adopt().
  std::vector<PatchSpot> spots_;
  std::vector<Region> regions_;
  std::vector<Jump> jumps_;  // ascending by address
  std::vector<PageRun> runs_;
  std::vector<Refusal> refused_;
  uint64_t trampoline_bytes_ = 0;
};

}  // namespace proftrace
