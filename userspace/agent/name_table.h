#pragma once

#include <stddef.h>
#include <stdint.h>

#include "userspace/agent/ring_writer.h"

namespace proftrace::agent {

// Gives texts ids and tells the reader of each text once, before its id is used. The id comes from
// the contents, so a text has the same one in every process; two texts that would share one are
// told apart by a second hash.
class NameTable {
 public:
  static constexpr size_t kSlots = 1 << 16;
  // The bytes that `memory` must hold; it begins as zeros.
  static constexpr size_t kBytes = kSlots * 16;

  NameTable() = default;
  explicit NameTable(void* memory);

  // Gives the id of `text` (0 for none or an empty one), which has been told to the reader then.
  // False when the ring had no room to tell it. When the table is full, texts are told each time.
  bool Intern(const char* text, int pid, RingWriter* ring, uint64_t* id);
  // Forgets what was told.
  void Clear();

 private:
  struct Slot {
    uint64_t id;  // 0 = free
    uint64_t check;
  };
  bool Tell(uint64_t id, const char* text, size_t length, int pid, RingWriter* ring);

  Slot* slots_ = nullptr;
  size_t used_ = 0;
};

}  // namespace proftrace::agent
