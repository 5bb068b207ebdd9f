// Keeps the open rows of one track of a chrome trace, and computes their lengths as they are
// written.
//
// A trace has microseconds in decimal. Programs that read the trace add up a row's "ts" and "dur"
// as doubles, and check whether the sum is beyond that of the row around it. Where both rows end at
// the same nanosecond (a call of Python and the last operator in it, or calls that one exception
// ended), the sum may be larger in its last bit, and then TensorBoard's plugin drops the row. So
// where needed such a row is written a nanosecond shorter, and a row that begins where another one
// ended is written a nanosecond later. For "ts" of 10^15 and more, where a double cannot hold
// nanoseconds, the smallest step of a double is used instead.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace proftrace {

class OpenSlices {
 public:
  struct Slice {
    int64_t ts_ns = 0;
    int64_t duration_ns = 0;
  };

  // Closes the rows that have ended by `ts_ns`.
  void CloseUntil(int64_t ts_ns);
  // Returns when the innermost open row ends; nullopt: no row is open.
  std::optional<int64_t> End() const {
    return open_.empty() ? std::nullopt : std::optional(open_.back().end_ns);
  }
  // Opens a row and returns it as it must be written. nullopt: it begins in a row that ends before
  // it. Rows must come in the order of their starts, which must not be negative.
  std::optional<Slice> Open(int64_t ts_ns, int64_t end_ns);

 private:
  struct Row {
    int64_t ts_ns;  // as written
    int64_t end_ns;
    double end_us;  // as a reader computes it
  };
  std::vector<Row> open_;  // outermost first
  double closed_us_ = 0;   // the latest end of the closed rows, as a reader computes it
};

}  // namespace proftrace
