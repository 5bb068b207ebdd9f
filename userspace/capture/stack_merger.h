// Stacks of Python's from two sources, jumps and probes, as one. Each source tells of a thread's
// stack as what is new since the one that it told of before; what comes out is new since whatever
// was told of the thread. Each row has the stack that its own source read.
//
// Jumps tell of a code object once in each thread, and number them by process: it comes out once,
// with a number of the recording's. So do modules: what lies at a module's address one after the
// other is told apart above the bits of the address, as what tells of them does not wait for the
// stacks that have them. Not thread-safe.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bpf/abi/python_records.h"
#include "userspace/capture/record_merger.h"
#include "userspace/model/ids.h"

namespace proftrace {

class StackMerger {
 public:
  using OnRecord = std::function<void(std::span<const std::byte> record)>;
  // Returns how far a copy of a code object's instructions lies behind these, as
  // ReadDistanceOfCopy(); nullopt: that is not known.
  using DistanceOfCopy =
      std::function<std::optional<uint32_t>(Pid pid, uint64_t code, uint32_t copy)>;

  // `distance_of`: asked for the copies that jumps tell of.
  explicit StackMerger(DistanceOfCopy distance_of) : distance_of_(std::move(distance_of)) {}

  // Takes each source's records, as it gives them. Code and modules come out at once, as stacks of
  // other threads may have them, too. Returns what is to be merged, good until the next call: the
  // record, or nothing (empty).
  std::span<const std::byte> Observe(std::span<const std::byte> record, RecordOrigin origin,
                                     const OnRecord& on_record);
  // Takes the records that Observe() left: those of each thread in the order of both sources
  // (RecordMerger).
  void Add(std::span<const std::byte> record, RecordOrigin origin, const OnRecord& on_record);

  // Numbers of code objects that jumps tell of; probes count from 1 on.
  static constexpr uint32_t kFirstCode = 1U << 30;

 private:
  struct Frame {
    uint64_t word = 0;    // as pt_python_stack_record has it
    uint64_t module = 0;  // behind it, if it says so

    bool operator==(const Frame&) const = default;
  };
  struct Stack {
    std::vector<Frame> frames;  // outermost first
    bool is_known = false;
    uint8_t flags = 0;
  };
  struct Thread {
    uint32_t pid = 0;
    Stack probes;
    Stack jumps;
    Stack told;
    RecordOrigin last = RecordOrigin::kProbe;
  };
  // What a thread is telling of.
  struct Teller {
    uint32_t pid = 0;
    bool skips_class = false;  // of a module that was known
    // A code object that jumps tell of: its records, as long as they may not be all.
    uint32_t code = 0;  // its number there; 0 = none
    // How far what the thread runs lies behind the code object's own instructions.
    std::optional<uint32_t> distance = 0;
    std::vector<std::byte> pieces;  // whole records
    std::string text;               // what they say
  };

  void OnCode(std::span<const std::byte> record, Teller* teller, const OnRecord& on_record);
  void OnText(std::span<const std::byte> record, RecordOrigin origin, Teller* teller,
              const OnRecord& on_record);
  void OnModule(std::span<const std::byte> record, RecordOrigin origin, Teller* teller,
                const OnRecord& on_record);
  // Returns the stack of a record with our numbers, in renumbered_.
  std::span<const std::byte> Renumber(std::span<const std::byte> record, RecordOrigin origin);
  // The handles of modules that a thread's stacks have, by the modules' addresses: the jumps of
  // each thread tell of modules by themselves, and all probes of a process together.
  using ModuleHandles = absl::flat_hash_map<uint64_t, uint64_t>;
  ModuleHandles& HandlesOf(const abi::pt_record& head, RecordOrigin origin) {
    return handles_[{head.pid, origin == RecordOrigin::kJump ? head.tid : 0}];
  }
  struct Code {
    uint32_t number = 0;
    std::optional<uint32_t> distance;
  };
  void KeepNumber(std::pair<uint32_t, uint32_t> theirs, Code ours);
  // Returns our number of a code object that jumps tell of; nullopt: what was told of it is lost.
  std::optional<Code> NumberOf(std::pair<uint32_t, uint32_t> theirs);
  uint64_t ModuleAt(const abi::pt_record& head, uint64_t address, RecordOrigin origin);
  // Reads a stack; false where it cannot be read: it is not known then.
  static bool ReadStack(const abi::pt_python_stack_record& record, size_t words, Stack* stack);
  // Ends the code that is being told of, which is whole.
  void EndCode(Teller* teller, const OnRecord& on_record);
  // Tells of `stack` before a record of this head.
  void Tell(const abi::pt_record& head, const Stack& stack, Thread* thread,
            const OnRecord& on_record);
  void OnProcessEnd(uint32_t pid);

  const DistanceOfCopy distance_of_;
  absl::flat_hash_map<uint32_t, Thread> threads_;                           // by tid
  absl::flat_hash_map<std::pair<uint32_t, RecordOrigin>, Teller> tellers_;  // by tid
  // By pid and their number: ours. When the first table is full it takes the second one's place, so
  // that those stay which a stack has had since, or a job told of.
  using CodeNumbers = absl::flat_hash_map<std::pair<uint32_t, uint32_t>, Code>;
  CodeNumbers numbers_;
  CodeNumbers older_numbers_;
  absl::flat_hash_map<std::string, uint32_t> codes_;  // by pid and contents
  // The module that was told of last at an address.
  struct Module {
    uint64_t type = 0;
    uint64_t handle = 0;  // as it came out
  };
  absl::flat_hash_map<uint32_t, absl::flat_hash_map<uint64_t, Module>> modules_;  // by pid
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, ModuleHandles> handles_;     // by pid and tid
  uint32_t next_code_ = kFirstCode;
  abi::pt_python_stack_record renumbered_{};
};

}  // namespace proftrace
