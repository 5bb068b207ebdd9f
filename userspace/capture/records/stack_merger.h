// Merges Python's stacks from two sources, jumps and probes. A source's record of a thread's stack
// has only the frames that are new since the stack that the same source recorded before; a merged
// record has the frames that are new since the last stack of the thread, whichever source recorded
// that one. Each row has the stack that its own source read.
//
// Jumps record a code object once in each thread, and number code objects by process; the merger
// gives out each code object once, with a number of the recording's own. The merger gives out
// modules once, too. Modules that lie at the same address one after the other are told apart by the
// bits above the address, because the records of modules do not wait for the stacks that contain
// the modules. Not thread-safe.
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
#include "userspace/capture/records/record_merger.h"
#include "userspace/model/ids.h"

namespace proftrace {

class StackMerger {
 public:
  using OnRecord = std::function<void(std::span<const std::byte> record)>;
  // Returns how far a copy of a code object's instructions lies behind the instructions themselves,
  // as ReadDistanceOfCopy() does; nullopt: that is not known.
  using DistanceOfCopy =
      std::function<std::optional<uint32_t>(Pid pid, uint64_t code, uint32_t copy)>;

  // `distance_of` is called for the copies that jumps record.
  explicit StackMerger(DistanceOfCopy distance_of) : distance_of_(std::move(distance_of)) {}

  // Takes each source's records in the order in which it gives them. Records of code and of modules
  // go to `on_record` at once, as stacks of other threads may refer to them, too. Returns the
  // record that is to be merged, valid until the next call; empty where no record is to be merged.
  std::span<const std::byte> Observe(std::span<const std::byte> record, RecordOrigin origin,
                                     const OnRecord& on_record);
  // Takes the records that Observe() returned, once RecordMerger has put the two sources' records
  // of each thread in order.
  void Add(std::span<const std::byte> record, RecordOrigin origin, const OnRecord& on_record);

  // The first number that is given out for code objects that jumps record. Probes number theirs
  // from 1 on.
  static constexpr uint32_t kFirstCode = 1U << 30;

 private:
  struct Frame {
    uint64_t word = 0;    // as pt_python_stack_record has it
    uint64_t module = 0;  // the module, where `word` says that there is one

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
  // The code object or module that the last records of a thread describe.
  struct Teller {
    uint32_t pid = 0;
    bool skips_class = false;  // the module was known, so the name of its class is left out
    // The code object of a jump's records, while more of its records may come.
    uint32_t code = 0;  // its number in the process; 0: none
    // How far the copy that the thread runs lies behind the code object's own instructions.
    std::optional<uint32_t> distance = 0;
    std::vector<std::byte> pieces;  // whole records
    std::string text;               // their contents
  };

  void OnCode(std::span<const std::byte> record, Teller* teller, const OnRecord& on_record);
  void OnText(std::span<const std::byte> record, RecordOrigin origin, Teller* teller,
              const OnRecord& on_record);
  void OnModule(std::span<const std::byte> record, RecordOrigin origin, Teller* teller,
                const OnRecord& on_record);
  // Returns a stack's record with our numbers of code objects and our handles of modules. The
  // result lies in renumbered_.
  std::span<const std::byte> Renumber(std::span<const std::byte> record, RecordOrigin origin);
  // Our handles of the modules in a thread's stacks, by the modules' addresses. The jumps of each
  // thread record modules for that thread, and probes for the whole process.
  using ModuleHandles = absl::flat_hash_map<uint64_t, uint64_t>;
  ModuleHandles& HandlesOf(const abi::pt_record& head, RecordOrigin origin) {
    return handles_[{head.pid, origin == RecordOrigin::kJump ? head.tid : 0}];
  }
  struct Code {
    uint32_t number = 0;
    std::optional<uint32_t> distance;
  };
  void KeepNumber(std::pair<uint32_t, uint32_t> theirs, Code ours);
  // Returns our number of a jump's code object; nullopt: the records of the code object are lost.
  std::optional<Code> NumberOf(std::pair<uint32_t, uint32_t> theirs);
  uint64_t ModuleAt(const abi::pt_record& head, uint64_t address, RecordOrigin origin);
  // Reads a stack into `stack`. Returns false where it cannot be read; the stack is not known then.
  static bool ReadStack(const abi::pt_python_stack_record& record, size_t words, Stack* stack);
  // Gives out the code object that `teller` holds, because all its records have come.
  void EndCode(Teller* teller, const OnRecord& on_record);
  // Gives out the records that describe `stack`, with time and thread of `head`, whose record comes
  // next.
  void Tell(const abi::pt_record& head, const Stack& stack, Thread* thread,
            const OnRecord& on_record);
  void OnProcessEnd(uint32_t pid);

  const DistanceOfCopy distance_of_;
  absl::flat_hash_map<uint32_t, Thread> threads_;                           // by tid
  absl::flat_hash_map<std::pair<uint32_t, RecordOrigin>, Teller> tellers_;  // by tid
  // Our numbers, by pid and the process's own number. When numbers_ is full it takes the place of
  // older_numbers_. Numbers that were used in a stack or recorded again since then are kept.
  using CodeNumbers = absl::flat_hash_map<std::pair<uint32_t, uint32_t>, Code>;
  CodeNumbers numbers_;
  CodeNumbers older_numbers_;
  absl::flat_hash_map<std::string, uint32_t> codes_;  // by pid and contents
  // The last module that was recorded at an address.
  struct Module {
    uint64_t type = 0;
    uint64_t handle = 0;  // the handle that we gave out
  };
  absl::flat_hash_map<uint32_t, absl::flat_hash_map<uint64_t, Module>> modules_;  // by pid
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, ModuleHandles> handles_;     // by pid and tid
  uint32_t next_code_ = kFirstCode;
  abi::pt_python_stack_record renumbered_{};
};

}  // namespace proftrace
