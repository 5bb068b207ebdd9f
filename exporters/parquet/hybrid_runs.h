// Writes Parquet's hybrid of run lengths and packed bits, in which dictionary indices and
// definition levels are stored.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace proftrace {

// Returns how many bits the numbers from 0 to `most` need: at least 1, because all readers accept
// 1.
int BitWidthOf(uint32_t most);

// Appends the numbers, none of which needs more than `bit_width` bits:
//   a run of the same number, eight or longer:  varint(length << 1), the number in whole bytes
//   other numbers, in groups of eight:          varint(groups << 1 | 1), bits from the lowest on
// The last group is filled up with zeros.
void AppendHybridRuns(std::span<const uint32_t> numbers, int bit_width, std::string* bytes);
void AppendHybridRuns(std::span<const uint8_t> numbers, int bit_width, std::string* bytes);

}  // namespace proftrace
