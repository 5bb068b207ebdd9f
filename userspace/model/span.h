// One closed interval on one thread: an operator, an autograd row, an annotation.
#pragma once

#include <cstdint>
#include <string_view>

#include "userspace/model/ids.h"

namespace proftrace {

enum class SpanEnd : uint8_t {
  kReturn = 0,
  kException = 1,  // closed at the catch of the C++ exception that unwound it
  kTruncated =
      2,      // still open when the recording, its thread or its process ended, or at a loss marker
  kLost = 3,  // its end was never seen, though later events prove that it is over
};

// Returns "return", "exception", "truncated" or "lost".
std::string_view SpanEndName(SpanEnd end);

struct Span {
  int64_t start_ns = 0;  // CLOCK_MONOTONIC
  int64_t duration_ns =
      0;  // >= 0; for kTruncated and kLost: up to the last moment it is known to have run
  // duration_ns less the durations of the direct children; below 0 where children overlap each
  // other.
  int64_t self_ns = 0;
  SpanId parent = kNoSpan;  // always smaller than the span's own id
  LabelId label{};
  PathId path{};  // names from the root to this span
  ThreadIndex thread{};
  uint16_t depth = 0;        // 0 = top level of its thread
  uint16_t child_count = 0;  // direct children; stays at 65535 when there are more
  SpanEnd end = SpanEnd::kTruncated;
  // As torch's is_async: it ended on another thread, or is a work of c10d.
  bool is_async : 1 = false;
  bool ended_elsewhere : 1 = false;  // on another thread
  bool overlaps : 1 = false;         // it outlives the row in which it began
  bool is_apart = false;  // async, or not in torch's events(): has no parent, children or self time

  int64_t end_ns() const { return start_ns + duration_ns; }
  // Returns whether the span's begin and end were both seen. Aggregates leave other spans out, and
  // count them.
  bool is_complete() const { return end == SpanEnd::kReturn || end == SpanEnd::kException; }
};
static_assert(sizeof(Span) == 48);

}  // namespace proftrace
