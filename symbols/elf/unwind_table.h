// Tells where functions begin and end by .eh_frame, the only source in a stripped file.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "symbols/elf/elf_file.h"

namespace proftrace {

// The begins come from the sorted table in .eh_frame_hdr. An end is read from the entry's own
// record when it is needed.
class UnwindTable {
 public:
  // Reads the table. Empty: the file has no table, or one in another encoding than linkers usually
  // write.
  static UnwindTable Read(const ElfFile& file);

  // Returns [start, end) of the entry that covers `address`; nullopt: no entry does.
  std::optional<std::pair<uint64_t, uint64_t>> Find(const ElfFile& file, uint64_t address) const;
  // Returns the address of the record (FDE) of the last entry that starts at or before `address`.
  std::optional<uint64_t> RecordAt(uint64_t address) const;
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    uint64_t start;
    uint64_t record;  // address of the FDE
  };
  // Returns the last entry that starts at or before `address`.
  const Entry* EntryAt(uint64_t address) const;

  std::vector<Entry> entries_;  // ascending by start
};

}  // namespace proftrace
