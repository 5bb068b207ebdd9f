#include "symbols/elf/unwind_table.h"

#include <algorithm>
#include <optional>

#include "userspace/base/byte_view.h"

namespace proftrace {
namespace {

// DWARF exception header encodings (LSB core specification, "DWARF Extensions").
constexpr uint8_t kPcRelativeSigned4 = 0x1b;
constexpr uint8_t kUnsigned4 = 0x03;
constexpr uint8_t kDataRelativeSigned4 = 0x3b;

// The size of the header: version, three encodings, the pointer to .eh_frame, and a count.
constexpr size_t kHeaderBytes = 12;
constexpr size_t kEntryBytes = 8;

// Returns the number at an offset; 0 where it lies outside of the bytes.
int32_t LoadInt32(ByteView bytes, uint64_t at) { return bytes.Get<int32_t>(at).value_or(0); }

}  // namespace

UnwindTable UnwindTable::Read(const ElfFile& file) {
  UnwindTable table;
  const ElfSection* section = file.FindSection(".eh_frame_hdr");
  if (section == nullptr) return table;
  const std::vector<uint8_t> bytes = file.ReadSection(*section);
  if (bytes.size() < kHeaderBytes || bytes[0] != 1 || bytes[1] != kPcRelativeSigned4 ||
      bytes[2] != kUnsigned4 || bytes[3] != kDataRelativeSigned4) {
    return table;
  }
  const uint32_t claimed = static_cast<uint32_t>(LoadInt32(ByteView(bytes), 8));
  const size_t count = std::min<size_t>(claimed, (bytes.size() - kHeaderBytes) / kEntryBytes);
  table.entries_.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const ByteView entry = ByteView(bytes).From(kHeaderBytes + i * kEntryBytes);
    table.entries_.push_back({section->address + static_cast<int64_t>(LoadInt32(entry, 0)),
                              section->address + static_cast<int64_t>(LoadInt32(entry, 4))});
  }
  const auto by_start = [](const Entry& a, const Entry& b) { return a.start < b.start; };
  if (!std::is_sorted(table.entries_.begin(), table.entries_.end(), by_start)) {
    std::sort(table.entries_.begin(), table.entries_.end(), by_start);
  }
  return table;
}

const UnwindTable::Entry* UnwindTable::EntryAt(uint64_t address) const {
  const auto after = std::upper_bound(entries_.begin(), entries_.end(), address,
                                      [](uint64_t a, const Entry& e) { return a < e.start; });
  return after == entries_.begin() ? nullptr : &*(after - 1);
}

std::optional<uint64_t> UnwindTable::RecordAt(uint64_t address) const {
  const Entry* const entry = EntryAt(address);
  return entry == nullptr ? std::nullopt : std::optional(entry->record);
}

std::optional<std::pair<uint64_t, uint64_t>> UnwindTable::Find(const ElfFile& file,
                                                               uint64_t address) const {
  const Entry* const found = EntryAt(address);
  if (found == nullptr) return std::nullopt;
  const Entry& entry = *found;
  // A record begins with length, CIE pointer, start and range, of 4 bytes each. The CIE says how
  // start and range are encoded. Compilers for x86-64 use pc-relative values of 4 bytes, which is
  // checked by comparing the start to the expected one.
  uint8_t record[16];
  if (file.ReadAddress(entry.record, record, sizeof(record)) != sizeof(record)) return std::nullopt;
  const uint64_t start =
      entry.record + 8 + static_cast<int64_t>(LoadInt32({record, sizeof(record)}, 8));
  const uint64_t range = static_cast<uint32_t>(LoadInt32({record, sizeof(record)}, 12));
  if (start != entry.start || range == 0 || address - start >= range) return std::nullopt;
  return std::make_pair(start, start + range);
}

}  // namespace proftrace
