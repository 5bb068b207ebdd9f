// Where a backend of torch.distributed keeps the number of its collectives.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace proftrace {

// Gives each collective of a group of gloo the group's next number, and returns what it was.
inline constexpr std::string_view kGlooNextTag = "_ZN4c10d16ProcessGroupGloo7nextTagEv";
// So many bytes of such a function's code are enough for CounterOfCode().
inline constexpr size_t kCounterCodeBytes = 16;

// Where a backend counts the collectives that it has begun.
struct GroupCounter {
  uint32_t offset = 0;  // in the object
  uint32_t bytes = 0;   // 4 or 8; 0 = not known
};

// Reads that from a function that returns the counter: gloo's nextTag(), NCCL's
// getSequenceNumberForGroup(). Its code begins with a load from the object; other code tells
// nothing.
GroupCounter CounterOfCode(std::span<const uint8_t> code);

}  // namespace proftrace
