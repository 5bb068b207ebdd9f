// Formats text into a sink through one big buffer. Made for millions of lines: numbers go straight
// into the buffer, and an error of the sink is kept until Flush() instead of being returned for
// each piece.
#pragma once

#include <absl/status/status.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "exporters/sinks/output_file.h"

namespace proftrace {

inline constexpr size_t kMaxNumberBytes =
    24;  // a 64-bit number with sign, or one with three decimals

// The next functions write at `at` and return the place behind; the caller has made room. They are
// inlined, because most texts and numbers are short, so that a call would cost as much as the copy.
[[gnu::always_inline]] inline char* PutText(char* at, std::string_view text) {
  const char* from = text.data();
  const size_t size = text.size();
  if (size > 16) {
    std::memcpy(at, from, size);
  } else if (size >= 8) {  // the two halves may overlap
    std::memcpy(at, from, 8);
    std::memcpy(at + size - 8, from + size - 8, 8);
  } else if (size >= 4) {
    std::memcpy(at, from, 4);
    std::memcpy(at + size - 4, from + size - 4, 4);
  } else if (size > 0) {
    at[0] = from[0];
    at[size / 2] = from[size / 2];
    at[size - 1] = from[size - 1];
  }
  return at + size;
}

inline constexpr uint32_t kEightDigits = 100'000'000;
inline constexpr auto kDigitPairs = [] {
  std::array<char, 200> pairs{};
  for (size_t i = 0; i < 100; ++i) {
    pairs[2 * i] = static_cast<char>('0' + i / 10);
    pairs[2 * i + 1] = static_cast<char>('0' + i % 10);
  }
  return pairs;
}();

// Writes exactly eight digits of a number that has at most eight.
inline char* PutEightDigits(char* at, uint32_t value) {
  const uint32_t high = value / 10'000;
  const uint32_t low = value % 10'000;
  std::memcpy(at, &kDigitPairs[high / 100 * 2], 2);
  std::memcpy(at + 2, &kDigitPairs[high % 100 * 2], 2);
  std::memcpy(at + 4, &kDigitPairs[low / 100 * 2], 2);
  std::memcpy(at + 6, &kDigitPairs[low % 100 * 2], 2);
  return at + 8;
}

inline char* PutSmall(char* at, uint32_t value) {
  if (value >= 10) return std::to_chars(at, at + kMaxNumberBytes, value).ptr;
  *at = static_cast<char>('0' + value);
  return at + 1;
}

// Writes an integer. Long numbers are written in steps of eight digits, because a time since 1970
// has nineteen digits and std::to_chars divides for every two of them.
template <typename Integer>
char* PutInteger(char* at, Integer value) {
  if (value < 0) return std::to_chars(at, at + kMaxNumberBytes, value).ptr;
  const auto number = static_cast<uint64_t>(value);
  if (number < kEightDigits) return PutSmall(at, static_cast<uint32_t>(number));
  const uint64_t high = number / kEightDigits;
  if (high < kEightDigits) {
    at = PutSmall(at, static_cast<uint32_t>(high));
  } else {
    at = PutSmall(at, static_cast<uint32_t>(high / kEightDigits));
    at = PutEightDigits(at, static_cast<uint32_t>(high % kEightDigits));
  }
  return PutEightDigits(at, static_cast<uint32_t>(number % kEightDigits));
}
// Writes nanoseconds as microseconds with exactly three decimals.
inline char* PutMicroseconds(char* at, int64_t ns) {
  if (ns < 0) *at++ = '-';
  const uint64_t magnitude =
      ns < 0 ? uint64_t{0} - static_cast<uint64_t>(ns) : static_cast<uint64_t>(ns);
  at = PutInteger(at, magnitude / 1000);
  const uint32_t rest = static_cast<uint32_t>(magnitude % 1000);
  at[0] = '.';
  at[1] = static_cast<char>('0' + rest / 100);
  at[2] = static_cast<char>('0' + rest / 10 % 10);
  at[3] = static_cast<char>('0' + rest % 10);
  return at + 4;
}

// Writes `value` with `decimals` decimals, as printf's %.*f does; 0 for infinities and NaN. This
// takes up to 400 bytes, because the longest double has 309 digits before the point.
inline constexpr size_t kMaxDecimalBytes = 400;
char* PutDecimal(char* at, double value, int decimals);

class TextWriter {
 public:
  static constexpr bool kIsChecked = true;  // a JsonStream checks what it writes

  // `sink` must outlive this; the caller finishes it.
  explicit TextWriter(ByteSink& sink);

  // Returns room for `bytes` bytes. Bytes that are written there count once Advance() is called
  // with their end.
  char* Reserve(size_t bytes) {
    if (static_cast<size_t>(end_ - at_) < bytes) MakeRoom(bytes);
    return at_;
  }
  void Advance(char* to) { at_ = to; }

  void Text(std::string_view text) { Advance(PutText(Reserve(text.size()), text)); }
  void Integer(int64_t value) { Advance(PutInteger(Reserve(kMaxNumberBytes), value)); }
  void Unsigned(uint64_t value) { Advance(PutInteger(Reserve(kMaxNumberBytes), value)); }
  void Microseconds(int64_t ns) { Advance(PutMicroseconds(Reserve(kMaxNumberBytes), ns)); }
  void Decimal(double value, int decimals) {
    Advance(PutDecimal(Reserve(kMaxDecimalBytes), value, decimals));
  }

  // Returns whether there was no error so far. Long loops ask now and then, so that they stop early
  // on a full disk.
  bool ok() const { return status_.ok(); }
  // Writes the rest to the sink and returns the first error.
  absl::Status Flush();

 private:
  void MakeRoom(size_t bytes);

  ByteSink& sink_;
  size_t capacity_;
  std::unique_ptr<char[]> buffer_;
  char* at_;
  char* end_;
  absl::Status status_;
};

}  // namespace proftrace
