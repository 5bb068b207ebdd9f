#include "userspace/model/python_lines.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace proftrace {
namespace {

constexpr uint32_t kPython310 = 0x030a;
constexpr uint32_t kPython311 = 0x030b;
constexpr uint64_t kUnitBytes = 2;
constexpr int8_t kNoLine = -128;  // 3.10

// The kinds of entries in 3.11's table (four bits of an entry's first byte), by what they tell
// about the line.
constexpr uint8_t kOneLine0 = 10;  // kinds 10 to 12: 0, 1 and 2 lines further
constexpr uint8_t kOneLine2 = 12;
constexpr uint8_t kNoColumns = 13;
constexpr uint8_t kLong = 14;
constexpr uint8_t kNone = 15;

// Reads a signed number: six bits in each byte, the lowest first; bit 6 = more bytes follow; the
// lowest bit of the number is its sign.
int64_t SignedNumber(std::span<const uint8_t> bytes) {
  uint64_t number = 0;
  unsigned shift = 0;
  for (const uint8_t byte : bytes) {
    if (shift < 36) number |= uint64_t{byte & 63U} << shift;
    shift += 6;
    if ((byte & 64U) == 0) break;
  }
  const auto size = static_cast<int64_t>(number >> 1);
  return (number & 1U) != 0 ? -size : size;
}

}  // namespace

PythonLines::PythonLines(uint32_t version, int32_t first_line, std::span<const uint8_t> table)
    : first_line_(first_line) {
  if (version >= kPython311) {
    ReadLocations(table);
  } else if (version == kPython310) {
    ReadLineRanges(table);
  } else {
    ReadLineIncrements(table);
  }
}

void PythonLines::Begin(uint64_t byte, std::optional<int64_t> line) {
  std::optional<int32_t> kept;
  if (line && *line >= 0 && *line <= std::numeric_limits<int32_t>::max()) {
    kept = static_cast<int32_t>(*line);
  }
  if (!starts_.empty() && starts_.back().byte == byte) starts_.pop_back();
  if (!starts_.empty() && starts_.back().line == kept) return;
  starts_.push_back({byte, kept});
}

// Reads pairs of increments: the first tells how many bytes of code to go on, the second by how
// many lines the line changes there.
void PythonLines::ReadLineIncrements(std::span<const uint8_t> table) {
  uint64_t byte = 0;
  int64_t line = first_line_;
  Begin(byte, line);
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    byte += table[i];
    line += static_cast<int8_t>(table[i + 1]);
    Begin(byte, line);
  }
}

// Reads pairs: the first tells the number of the next bytes of code, the second by how many lines
// they are further than the last ones with a line.
void PythonLines::ReadLineRanges(std::span<const uint8_t> table) {
  uint64_t byte = 0;
  int64_t line = first_line_;
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    const auto change = static_cast<int8_t>(table[i + 1]);
    if (change != kNoLine) line += change;
    if (table[i] != 0) Begin(byte, change == kNoLine ? std::nullopt : std::optional(line));
    byte += table[i];
  }
  Begin(byte, std::nullopt);
}

// Reads entries of one byte or more. Only the first byte of an entry has its highest bit set.
void PythonLines::ReadLocations(std::span<const uint8_t> table) {
  uint64_t byte = 0;
  int64_t line = first_line_;
  for (size_t i = 0; i < table.size();) {
    const uint8_t code = (table[i] >> 3U) & 15U;
    const uint64_t units = (table[i] & 7U) + 1U;
    if (code == kLong || code == kNoColumns) {
      line += SignedNumber(table.subspan(i + 1));
    } else if (code >= kOneLine0 && code <= kOneLine2) {
      line += code - kOneLine0;
    }
    Begin(byte, code == kNone ? std::nullopt : std::optional(line));
    byte += units * kUnitBytes;
    ++i;
    while (i < table.size() && (table[i] & 128U) == 0) ++i;
  }
  Begin(byte, std::nullopt);
}

std::optional<int32_t> PythonLines::LineOf(uint32_t instruction) const {
  if (static_cast<int32_t>(instruction) < 0) return first_line_;
  const uint64_t byte = instruction * kUnitBytes;
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), byte,
                                      [](uint64_t at, const Start& s) { return at < s.byte; });
  return after == starts_.begin() ? std::nullopt : std::prev(after)->line;
}

std::optional<int32_t> PythonLine(uint32_t version, int32_t first_line,
                                  std::span<const uint8_t> table, uint32_t instruction) {
  return PythonLines(version, first_line, table).LineOf(instruction);
}

}  // namespace proftrace
