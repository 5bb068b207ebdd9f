// Reads one event of Chrome's trace format, as Kineto, DFTracer and others write it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "userspace/collectives/source_input.h"

namespace proftrace {

// How the numbers of `ts` and `dur` become nanoseconds.
struct TraceTimes {
  int64_t unit_ns = 1000;
  int64_t base_ns = 0;
};

class TraceEventReader {
 public:
  enum class Outcome : uint8_t {
    kEvent,
    kUnplaced,  // the event has no valid time, or no phase
    kWrong,     // the text is not JSON
  };

  // Reads the object `text` into `event`, which is valid until the next call. `wrong_at` receives
  // the place where the text is not JSON. Where a key stands twice, the last one counts.
  Outcome Read(std::string_view text, const TraceTimes& times, SourceEvent* event,
               size_t* wrong_at);

  // Returns how many events had text or numbers that JSON does not allow, and were mended.
  uint64_t repaired() const { return repaired_; }
  // Returns how many events had a negative duration, which became 0.
  uint64_t negative() const { return negative_; }

 private:
  struct Members {
    std::string_view phase;
    std::string_view name;
    std::string_view category;
    std::string_view pid;
    std::string_view tid;
    std::string_view ts;
    std::string_view dur;
    std::string_view id;
    std::string_view args;
  };
  Outcome Build(const TraceTimes& times, SourceEvent* event);

  Members members_;
  std::vector<std::pair<std::string_view, std::string_view>> other_members_;
  std::string others_;
  std::string repaired_text_;
  uint64_t repaired_ = 0;
  uint64_t negative_ = 0;
};

}  // namespace proftrace
