// The loader's end of the ring into which a patched job's threads write their records
// (patch_memory.h). It lays the ring out, takes records out of it, and says how long writers may go
// on.
//
// The memory belongs to the job, too, so nothing in it is trusted: records are copied before they
// are checked, positions and addresses are the loader's own, and everything that is wrong is
// counted.
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

// The facts of a job that the recorder needs.
struct JobFacts {
  abi::pt_autograd_layout autograd{};  // all zero: operators get no sequence numbers
  // Vtables of autograd nodes that Python code has defined; 0 behind the last one.
  std::array<uint64_t, PATCH_PYTHON_NODES> python_nodes{};
  struct AnnotationOperator {
    uint64_t address = 0;  // of the operator's OperatorDef
    uint64_t step = 0;     // enum pt_annotation_step
  };
  std::array<AnnotationOperator, PATCH_ANNOTATIONS> annotations{};  // 0 behind the last one
};

// The facts of a job's CPython that the recorder needs.
struct PythonFacts {
  abi::pt_python_layout layout{};
  int32_t state_offset = 0;  // from a thread's control block to its PyThreadState pointer
  uint64_t finalizing = 0;   // address of a word that is not 0 as soon as Python ends
  uint64_t end = 0;          // address of the jump at which Python's end waits for reading threads
  abi::pt_script_layout
      scripts{};  // TorchScript's interpreter; an index of 0 in `state` = not read
};

struct PatchRingOptions {
  Pid pid{};                       // the process's PID, which its records get
  uint32_t slot_words = 1u << 18;  // words of a thread's slot; a power of two, at least 4096
  // The offset of a thread's id in its thread control block in the job, in bytes.
  int32_t tid_offset = 0;
  uint64_t address = 0;  // the address of the ring in the job
  uint32_t salt = 0;     // a position plus this is the number of a record's place; any number
  JobFacts facts;
  // The tables that the cookies of spots refer to by a number, which is 1 for the first entry.
  std::vector<abi::pt_place> places;
  std::vector<abi::pt_signature> signatures;
  uint16_t node_signature = 0;  // the signature of autograd nodes; 0 = none
  bool reads_inputs = false;    // the ring has buffers for the inputs of operators
  bool reads_stacks = false;    // the ring has memory for each thread's Python stack
  std::optional<PythonFacts> python;
  // The following fields are what a later run needs to take everything out of the job again
  // (leftovers.cc).
  std::optional<int> filters;  // seccomp filters of each of the job's threads; nullopt: not known
  std::vector<AddressRange> regions;
  std::vector<uint64_t> jumps;
  uint64_t more_jumps = 0;  // how many more jumps may be announced later
};

struct PatchRingCounts {
  uint64_t lapses = 0;             // how often a thread did not record because LetWrite() came late
  uint64_t records = 0;            // records that were handed on
  uint64_t lost = 0;               // records for which there was no room, or no slot
  uint64_t abandoned = 0;          // records that were begun and never finished
  uint64_t damages = 0;            // places without a valid record, where one was to be
  uint64_t read_failed = 0;        // parts of records that could not be read from the job's memory
  uint64_t unslotted = 0;          // of `lost`: those of threads that found no slot
  uint64_t unslotted_threads = 0;  // threads that found no slot, at least
};

class PatchRing {
 public:
  // Takes one whole record, with pid and tid as the loader counts them. The record is aligned, and
  // valid only during the call. A thread's records come in the order of time, except those of
  // signal handlers.
  using OnRecord = std::function<void(std::span<const std::byte> record)>;
  // Returns the loader's number of a thread, from the number that it has in the job's PID
  // namespace. Returns 0 if there is no such thread; its records count as damage then.
  using ThreadNumber = std::function<uint32_t(uint32_t tid)>;

  // Returns the size of the ring's memory in bytes.
  static uint64_t Bytes(const PatchRingOptions& options);
  // Returns the offset in the memory at which the addresses of jumps begin.
  static uint64_t JumpsOffset(const PatchRingOptions& options);

  // Lays a ring out in `memory`: a memfd of Bytes() that cannot shrink, and that has nothing in it
  // but what AnnounceRing() (ring_file.h) may have written.
  static absl::StatusOr<std::unique_ptr<PatchRing>> Make(const UniqueFd& memory,
                                                         const PatchRingOptions& options,
                                                         ThreadNumber thread_number);
  ~PatchRing();
  PatchRing(const PatchRing&) = delete;
  PatchRing& operator=(const PatchRing&) = delete;

  // Lets threads record for `ns` nanoseconds from now on, and calls Advance() of the clock. Returns
  // for how many nanoseconds threads may not have recorded because this call came too late;
  // everything that they did in that time is lost.
  int64_t LetWrite(int64_t ns);
  // Ends the recording: no thread records from here on.
  void Stop();
  // Hands on the records that have been written so far, or as many of them as can be handed on in
  // some milliseconds. Returns the number of records that were handed on.
  uint64_t Drain(const OnRecord& on_record);
  // Whether the last Drain() left nothing that it could have handed on.
  bool is_drained() const { return is_drained_; }
  PatchRingCounts counts() const;
  // Returns whether the thread that had this control block has ended, and no other thread has the
  // control block now. `tid`: the loader's number of the thread that wrote the last record of the
  // slot.
  using HasEnded = std::function<bool(uint64_t control_block, uint32_t tid)>;
  // Frees slots of ended threads for new threads, if many slots are in use. A slot is freed at the
  // second call that finds its thread ended and all of its records handed on.
  void FreeSlots(const HasEnded& has_ended);
  // Tells recorders whether jumps see the end of every operator, and every catch. If they do, an
  // operator's Python stack need not be read again in the functions that it calls.
  void SetEndsAreSeen(bool seen);
  bool ends_are_seen() const;
  // Lets threads read Python stacks from here on. The jump at which Python's end waits for them
  // must have been written.
  void LetReadStacks();
  bool are_stacks_read() const;

  // Announces, for a later run, regions and jumps that will be in the process as well. Returns
  // false if there is no room for them in the ring.
  bool Announce(const std::vector<AddressRange>& regions, const std::vector<uint64_t>& jumps);
  // Takes the last announcement back, because its regions and jumps are not in the process after
  // all. `regions`, `jumps`: how many there were.
  void Retract(size_t regions, size_t jumps);

  // Makes the job's threads only count calls at `site` from here on; `records_ends`: the ends of
  // calls are still recorded. Threads see the change at once. Returns false if no counter is left
  // for the site.
  bool Demote(uint16_t site, bool records_ends);
  // Returns how many calls were only counted at `site`.
  uint64_t CountedCalls(uint16_t site) const;
  const TscClock& clock() const { return clock_; }
  const PatchRingOptions& options() const { return options_; }

 private:
  struct Slot {
    uint64_t head = 0;  // the position of the next record
    int64_t waits_since_ns =
        0;                    // since when the record at `head` is seen unfinished; 0 = it is not
    uint64_t told_lost = 0;   // lost records that PT_LOSS records have told of
    uint64_t last_ns = 0;     // time of the last record
    uint32_t last_tid = 0;    // the tid of the last record, as handed on; 0 = there was none yet
    uint32_t own_number = 0;  // the job's number that thread_number_ was asked for last; 0 = none
    uint32_t number = 0;      // the number that thread_number_ returned for own_number
    uint64_t missing = 0;     // how many records, at least, the next PT_LOSS has to tell of
    int64_t lapse_ns = 0;     // when a lapse of recording began; 0 = no lapse is to be told of
  };

  PatchRing(const PatchRingOptions& options, ThreadNumber thread_number)
      : options_(options), thread_number_(std::move(thread_number)) {}
  void LayOut();
  // Resets a slot that no thread has any more, so that it is like a slot that no thread has ever
  // had.
  void ResetSlot(size_t index);
  uint64_t DrainSlot(size_t index, const OnRecord& on_record);
  // Hands on a PT_LOSS for the slot's missing records, before a record of the thread `tid`.
  void TellMissing(Slot* slot, uint32_t tid, const OnRecord& on_record);
  // Copies the record at `position` to record_. Returns false if there is no valid record.
  bool CopyRecord(size_t index, uint64_t position);
  void NoteDamage(Slot* slot);
  // Returns the position of the first valid record behind `position`, or `tail` if there is none.
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
  // Makes threads report their whole Python stacks again. A stack is recorded as its difference
  // from the one before, so a loss that the thread does not know of would falsify the next ones.
  void NoteLossOfStacks();
  uint64_t DemotionsOffset() const;
  uint64_t CountersOffset(size_t index) const;

  PatchRingOptions options_;
  ThreadNumber thread_number_;
  std::byte* memory_ = nullptr;
  TscClock clock_;
  int64_t deadline_ns_ = 0;  // until when threads may write; 0 = they may not write
  std::vector<Slot> slots_;
  size_t next_slot_ = 0;          // the slot that Drain() begins with
  uint64_t looked_at_words_ = 0;  // words that this Drain() has looked at
  bool is_drained_ = true;
  PatchRingCounts counts_;
  std::vector<uint16_t> demoted_sites_;  // the counter of a site is its index here plus 1
  alignas(8) std::byte record_[255 * 8];
};

}  // namespace proftrace
