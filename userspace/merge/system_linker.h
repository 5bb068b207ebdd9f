// Gives system events their places: the spans of their thread that they lie in, and each other; and
// spans what the kernel did while they were open.
//
// A thread is in one place at a time, so that what the kernel does for it lies in what is open on
// it at its begin; times are clipped where the clocks of two programs differ by the time that one
// of them takes.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <optional>
#include <string>

#include "userspace/decode/system_decoder.h"
#include "userspace/model/timeline.h"
#include "userspace/stats/ledger.h"

namespace proftrace {

struct SystemWindow {
  int64_t start_ns = 0;
  std::optional<int64_t> end_ns;  // none: not known
  std::string spill_directory;
};

// Events are cut at the borders of the window, and those outside of it left out and counted. Fails
// as TimelineBuilder::AddSpan().
absl::Status LinkSystem(SystemDecoder::Tables tables, const SystemWindow& window,
                        TimelineBuilder* timeline, Ledger* ledger);

}  // namespace proftrace
