// The rows of one track of a chrome trace that are open, and their lengths as they are written.
//
// A trace has microseconds in decimal. Programs that read it add a row's "ts" and "dur" up as
// doubles and ask whether the sum is past that of the row around it: with ends at one nanosecond
// (a call of Python and the last operator in it, calls that one exception ended) it may be, by the
// last bit, and then TensorBoard's plugin drops the row. So such a row is written a nanosecond
// shorter, and one that begins where another ended a nanosecond later, where it has to be (at "ts"
// of 10^15 and more, where a double has no nanoseconds, by what one has).
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

  // Closes what has ended by then.
  void CloseUntil(int64_t ts_ns);
  // Returns when the innermost one ends; nullopt: none is open.
  std::optional<int64_t> End() const {
    return open_.empty() ? std::nullopt : std::optional(open_.back().end_ns);
  }
  // Opens a row, and gives it as it is to be written. Nothing: it begins in one that ends before.
  // Rows come in the order of their starts, which are not negative.
  std::optional<Slice> Open(int64_t ts_ns, int64_t end_ns);

 private:
  struct Row {
    int64_t ts_ns;  // as written
    int64_t end_ns;
    double end_us;  // as a reader has it
  };
  std::vector<Row> open_;  // outermost first
  double closed_us_ = 0;   // the latest end of those that are closed, as a reader has it
};

}  // namespace proftrace
