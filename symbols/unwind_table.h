// Where functions begin and end according to .eh_frame: the only source in a stripped file.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "symbols/elf_file.h"

namespace proftrace {

// Starts come from the sorted table in .eh_frame_hdr; the end is read from the entry's own record
// when asked for.
class UnwindTable {
 public:
  // An empty table when the file has none, or one in an encoding other than the linker's usual one.
  static UnwindTable Read(const ElfFile& file);

  // [start, end) of the entry that covers `address`.
  std::optional<std::pair<uint64_t, uint64_t>> Find(const ElfFile& file, uint64_t address) const;
  // Address of the record (FDE) of the last entry that starts at or before `address`.
  std::optional<uint64_t> RecordAt(uint64_t address) const;
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    uint64_t start;
    uint64_t record;  // address of the FDE
  };
  // The last one that starts at or before `address`.
  const Entry* EntryAt(uint64_t address) const;

  std::vector<Entry> entries_;  // ascending by start
};

}  // namespace proftrace
