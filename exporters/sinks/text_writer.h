// Formats text into a sink through one big buffer. Made for millions of lines: numbers go straight
// into the buffer, and an error of the sink is kept until Finish() instead of being asked for after
// each piece.
#pragma once

#include <absl/status/status.h>

#include <charconv>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "exporters/sinks/output_file.h"

namespace proftrace {

inline constexpr size_t kMaxNumberBytes =
    24;  // a 64-bit number with sign, or one with three decimals

// These write at `at` and return what follows; the caller has made room.
inline char* PutText(char* at, std::string_view text) {
  if (!text.empty()) std::memcpy(at, text.data(), text.size());
  return at + text.size();
}
template <typename Integer>
char* PutInteger(char* at, Integer value) {
  return std::to_chars(at, at + kMaxNumberBytes, value).ptr;
}
// Nanoseconds as microseconds with exactly three decimals.
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

class TextWriter {
 public:
  // `sink` must outlive this; the caller finishes it.
  explicit TextWriter(ByteSink& sink);

  // Returns room for `bytes` bytes; what was written there counts once Advance() was told its end.
  char* Reserve(size_t bytes) {
    if (static_cast<size_t>(end_ - at_) < bytes) MakeRoom(bytes);
    return at_;
  }
  void Advance(char* to) { at_ = to; }

  void Text(std::string_view text) { Advance(PutText(Reserve(text.size()), text)); }
  void Integer(int64_t value) { Advance(PutInteger(Reserve(kMaxNumberBytes), value)); }
  void Unsigned(uint64_t value) { Advance(PutInteger(Reserve(kMaxNumberBytes), value)); }
  void Microseconds(int64_t ns) { Advance(PutMicroseconds(Reserve(kMaxNumberBytes), ns)); }
  // `value` with `decimals` decimals, as printf's %.*f.
  void Decimal(double value, int decimals);

  // Whether all went well so far. Long loops ask now and then, to stop early on a full disk.
  bool ok() const { return status_.ok(); }
  // Hands the rest to the sink and gives the first error.
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
