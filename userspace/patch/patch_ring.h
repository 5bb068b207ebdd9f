// The loader's end of the ring that a patched job's threads write their records into
// (patch_memory.h): lays it out, takes records out of it, and says how long writers may go on.
//
// The memory belongs to the job, too, so nothing in it is trusted: records are copied before they
// are checked, positions and addresses are the loader's own, and what is wrong is counted.
#pragma once

#include <absl/status/statusor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "bpf/abi/patch_memory.h"
#include "bpf/abi/python_records.h"
#include "bpf/abi/records.h"
#include "bpf/abi/script_records.h"
#include "userspace/base/unique_fd.h"
#include "userspace/model/ids.h"
#include "userspace/patch/tsc_clock.h"

namespace proftrace {

struct AddressRange {
  uint64_t address = 0;
  uint64_t bytes = 0;

  bool Holds(uint64_t other) const { return other >= address && other - address < bytes; }
};

// The facts of a job that the recorder has to know.
struct JobFacts {
  abi::pt_autograd_layout autograd{};  // all zero: operators have no sequence numbers
  // Vtables of autograd nodes of Python's; 0 behind the last one.
  std::array<uint64_t, PATCH_PYTHON_NODES> python_nodes{};
  struct AnnotationOperator {
    uint64_t address = 0;  // of its OperatorDef
    uint64_t step = 0;     // enum pt_annotation_step
  };
  std::array<AnnotationOperator, PATCH_ANNOTATIONS> annotations{};  // 0 behind the last one
};

// The facts of a job's CPython that the recorder has to know.
struct PythonFacts {
  abi::pt_python_layout layout{};
  int32_t state_offset = 0;         // of a thread's PyThreadState, from its control block
  uint64_t finalizing = 0;          // address of a word that is not 0 as soon as Python ends
  uint64_t end = 0;                 // address of the jump at which its end waits for those who read
  abi::pt_script_layout scripts{};  // of TorchScript's interpreter; its state's index 0 = not read
};

struct PatchRingOptions {
  Pid pid{};                       // what records get
  uint32_t slot_words = 1u << 18;  // of a thread; a power of two, 4096 at least
  // The offset of a thread's id in its thread control block in the job, in bytes.
  int32_t tid_offset = 0;
  uint64_t address = 0;  // where the job has the memory mapped
  uint32_t salt = 0;     // any number
  JobFacts facts;
  // The cookies of spots count these from 1 on.
  std::vector<abi::pt_place> places;
  std::vector<abi::pt_signature> signatures;
  uint16_t node_signature = 0;  // that of autograd nodes; 0 = none
  bool reads_inputs = false;    // there are buffers for what operators are called with
  bool reads_stacks = false;    // there is memory for threads' stacks of Python's
  std::optional<PythonFacts> python;
  // What a later run needs to take all of it away (leftovers.h).
  std::optional<int> filters;  // seccomp filters of each of its threads; nullopt: not known
  std::vector<AddressRange> regions;
  std::vector<uint64_t> jumps;
  uint64_t more_jumps = 0;  // so many may be announced later
};

struct PatchRingCounts {
  uint64_t lapses = 0;             // threads that recorded nothing for a while, each time
  uint64_t records = 0;            // handed on
  uint64_t lost = 0;               // there was no room, or no slot, for them
  uint64_t abandoned = 0;          // begun and never finished
  uint64_t damages = 0;            // places where no record could be read
  uint64_t read_failed = 0;        // a part of a record could not be had
  uint64_t unslotted = 0;          // of those lost: of threads that found no slot
  uint64_t unslotted_threads = 0;  // so many at least
};

class PatchRing {
 public:
  // Gets whole records with the loader's pid and tid, aligned, valid during the call. A thread's
  // records come in the order of time but for those of signal handlers.
  using OnRecord = std::function<void(std::span<const std::byte> record)>;
  // The loader's number of a thread, from its number in the job's PID namespace; 0: there is no
  // such thread, and what it wrote counts as damage.
  using ThreadNumber = std::function<uint32_t(uint32_t tid)>;

  // Bytes of the memory.
  static uint64_t Bytes(const PatchRingOptions& options);
  // Returns where in it the addresses of jumps begin.
  static uint64_t JumpsOffset(const PatchRingOptions& options);

  // `memory`: a memfd of Bytes() that is empty and cannot shrink.
  static absl::StatusOr<std::unique_ptr<PatchRing>> Make(const UniqueFd& memory,
                                                         const PatchRingOptions& options,
                                                         ThreadNumber thread_number);
  ~PatchRing();
  PatchRing(const PatchRing&) = delete;
  PatchRing& operator=(const PatchRing&) = delete;

  // Threads record for so long from now on. Also Advance()s the clock. For how long they may not
  // have recorded, because it comes too late, in nanoseconds: what they did then is lost.
  int64_t LetWrite(int64_t ns);
  // Stops recording: nobody records from here on.
  void Stop();
  // Hands on what is there and was recorded until now, or as much of it as takes some milliseconds;
  // how many records.
  uint64_t Drain(const OnRecord& on_record);
  // Whether the last Drain() left nothing that it could have handed on.
  bool is_drained() const { return is_drained_; }
  PatchRingCounts counts() const;
  // Whether a thread has ended that had this control block, and no other has it now; `tid`: the
  // loader's number of who wrote the last record by it.
  using HasEnded = std::function<bool(uint64_t control_block, uint32_t tid)>;
  // Gives slots of ended threads to new ones, where many are in use: at the second call that finds
  // a slot so, with nothing in it that Drain() has not handed on.
  void FreeSlots(const HasEnded& has_ended);
  // Whether jumps see the end of every operator, and every catch: an operator's stack need not
  // be looked at again in what it calls.
  void SetEndsAreSeen(bool seen);
  bool ends_are_seen() const;
  // Threads read stacks of Python's from here on: there is the jump at which its end waits for
  // them.
  void LetReadStacks();
  bool are_stacks_read() const;

  // Announces to a later run what will be in the process as well. False: there is no room.
  bool Announce(const std::vector<AddressRange>& regions, const std::vector<uint64_t>& jumps);
  // Takes back what was announced last, which is not there: so many of each.
  void Retract(size_t regions, size_t jumps);

  // Calls at `site` are only counted from here on, and their ends are recorded or not. Threads see
  // it at once. False: there is no counter left for it.
  bool Demote(uint16_t site, bool records_ends);
  // Returns how many calls were only counted at `site`.
  uint64_t CountedCalls(uint16_t site) const;
  const TscClock& clock() const { return clock_; }
  const PatchRingOptions& options() const { return options_; }

 private:
  struct Slot {
    uint64_t head = 0;
    int64_t waits_since_ns = 0;  // for the record at `head`, which others follow; 0 = it does not
    uint64_t told_lost = 0;      // by PT_LOSS records
    uint64_t last_ns = 0;        // of the last record
    uint32_t last_tid = 0;       // of the last record; 0 = there was none yet
    uint32_t own_number = 0;     // that thread_number_ was asked for last; 0 = none
    uint32_t number = 0;         // what it gave
    uint64_t missing = 0;        // records, at least, that a PT_LOSS has to tell of before the next
    int64_t lapse_ns = 0;  // when it stopped recording for a while; 0 = it did not, or is told
  };

  PatchRing(const PatchRingOptions& options, ThreadNumber thread_number)
      : options_(options), thread_number_(std::move(thread_number)) {}
  void LayOut();
  // Resets a slot that nobody has, as if no thread had had it.
  void ResetSlot(size_t index);
  uint64_t DrainSlot(size_t index, const OnRecord& on_record);
  // Tells of what is missing before a record of this thread.
  void TellMissing(Slot* slot, uint32_t tid, const OnRecord& on_record);
  // Whether a valid record is at `position`; in record_ then.
  bool CopyRecord(size_t index, uint64_t position);
  void NoteDamage(Slot* slot);
  // Returns where the first valid record behind `position` is; `tail`: there is none.
  uint64_t NextRecord(size_t index, uint64_t position, uint64_t tail);

  template <typename T>
  T* HeaderField(size_t offset) const {
    return reinterpret_cast<T*>(memory_ + offset);
  }
  template <typename T>
  T* SlotField(size_t index, size_t offset) const {
    return reinterpret_cast<T*>(memory_ + PATCH_RING_HEADER_BYTES + (index << PATCH_SLOT_SHIFT) +
                                offset);
  }
  uint64_t WordsOffset(size_t index) const;
  uint64_t InputsOffset() const;
  uint64_t StacksOffset(size_t index) const;
  // Stacks are told of as what is new of each: after a loss that threads do not know of, anew.
  void NoteLossOfStacks();
  uint64_t DemotionsOffset() const;
  uint64_t CountersOffset(size_t index) const;

  PatchRingOptions options_;
  ThreadNumber thread_number_;
  std::byte* memory_ = nullptr;
  TscClock clock_;
  int64_t deadline_ns_ = 0;  // of writers; 0 = they have none
  std::vector<Slot> slots_;
  size_t next_slot_ = 0;          // where Drain() begins
  uint64_t looked_at_words_ = 0;  // in this Drain()
  bool is_drained_ = true;
  PatchRingCounts counts_;
  std::vector<uint16_t> demoted_sites_;  // the counter of a site is 1 + its index
  alignas(8) std::byte record_[255 * 8];
};

}  // namespace proftrace
