// Finds where a backend of torch.distributed keeps the number of its collectives.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace proftrace {

// The function of gloo that counts a group's collectives: it increments the counter and returns its
// old value.
inline constexpr std::string_view kGlooNextTag = "_ZN4c10d16ProcessGroupGloo7nextTagEv";
// The functions of gloo that send and receive a message, which takes no number of the group. Their
// result is an object, so that the group is the second argument.
inline constexpr std::string_view kGlooMessages[] = {
    "_ZN4c10d16ProcessGroupGloo4sendERSt6vectorIN2at6TensorESaIS3_EEii",
    "_ZN4c10d16ProcessGroupGloo4recvERSt6vectorIN2at6TensorESaIS3_EEii",
    "_ZN4c10d16ProcessGroupGloo13recvAnysourceERSt6vectorIN2at6TensorESaIS3_EEi"};
// How many bytes of a function's code CounterOfCode() needs.
inline constexpr size_t kCounterCodeBytes = 24;

// Where a backend counts the collectives that it has begun.
struct GroupCounter {
  uint32_t offset = 0;  // in the object
  uint32_t bytes = 0;   // 4 or 8; 0 = not known
};

// Finds the counter in the code of a function that returns it: gloo's nextTag() or NCCL's
// getSequenceNumberForGroup(). The code must begin with a load from the object, or with a call that
// checks the object and then the load; otherwise the result has 0 bytes.
GroupCounter CounterOfCode(std::span<const uint8_t> code);

}  // namespace proftrace
