// Stacks of Python's from two sources, jumps and probes, as one. Each source tells of a thread's
// stack as what is new since the one that it told of before; what comes out is new since whatever
// was told of the thread. Each row has the stack that its own source read.
//
// Jumps tell of a code object once in each thread, and number them by process: it comes out once,
// with a number of the recording's. So do modules. Not thread-safe.
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

namespace proftrace {

class StackMerger {
 public:
  using OnRecord = std::function<void(std::span<const std::byte> record)>;

  // Records of a thread, of both sources, in their order (RecordMerger).
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
  struct Source {
    Stack stack;
    bool skips_class = false;  // of a module that was known
  };
  struct Thread {
    uint32_t pid = 0;
    Source probes;
    Source jumps;
    Stack told;
    RecordOrigin last = RecordOrigin::kProbe;
    // A code object that jumps tell of: its records, as long as they may not be all.
    uint32_t code = 0;              // its number there; 0 = none
    std::vector<std::byte> pieces;  // whole records
    std::string text;               // what they say
  };

  void OnCode(std::span<const std::byte> record, Thread* thread, const OnRecord& on_record);
  void OnText(std::span<const std::byte> record, RecordOrigin origin, Thread* thread,
              const OnRecord& on_record);
  void OnModule(std::span<const std::byte> record, Source* source, const OnRecord& on_record);
  void OnStack(std::span<const std::byte> record, RecordOrigin origin, Thread* thread,
               const OnRecord& on_record);
  // False where it cannot be: the stack is not known then.
  bool ReadStack(const abi::pt_python_stack_record& record, size_t words, RecordOrigin origin,
                 Stack* stack);
  // The code that is being told of is whole.
  void EndCode(Thread* thread, const OnRecord& on_record);
  // Tells of `stack` before a record of this head.
  void Tell(const abi::pt_record& head, const Stack& stack, Thread* thread,
            const OnRecord& on_record);
  void OnProcessEnd(uint32_t pid);

  absl::flat_hash_map<uint32_t, Thread> threads_;                          // by tid
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t> numbers_;   // by pid, theirs: ours
  absl::flat_hash_map<std::string, uint32_t> codes_;                       // by pid and contents
  absl::flat_hash_map<uint32_t, absl::flat_hash_map<uint64_t, uint64_t>> modules_;  // by pid: types
  uint32_t next_code_ = kFirstCode;
};

}  // namespace proftrace
