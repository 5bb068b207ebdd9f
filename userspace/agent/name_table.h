#pragma once

#include <stddef.h>
#include <stdint.h>

#include "userspace/agent/ring_writer.h"

namespace proftrace::agent {

// Gives texts ids, and sends each text to the reader once, before its id is used. The id is a hash
// of the contents, so a text has the same id in every process. A second hash tells texts apart that
// would have the same id.
class NameTable {
 public:
  static constexpr size_t kSlots = 1 << 16;
  // The size that `memory` must have, in bytes; the memory must begin as zeros.
  static constexpr size_t kBytes = kSlots * 16;

  NameTable() = default;
  explicit NameTable(void* memory);

  // Sets `id` to the id of `text` (0 for nullptr or an empty text), and sends the reader a text
  // that was not sent before. Returns false if the ring had no room for it. When the table is full,
  // further texts are sent each time.
  bool Intern(const char* text, int pid, RingWriter* ring, uint64_t* id);
  // Forgets which texts were sent to the reader.
  void Clear();

 private:
  struct Slot {
    uint64_t id;  // 0: free
    uint64_t check;
  };
  bool Tell(uint64_t id, const char* text, size_t length, int pid, RingWriter* ring);

  Slot* slots_ = nullptr;
  size_t used_ = 0;
};

}  // namespace proftrace::agent
