// Finds the place of each system event: the span of its thread and the other system event that it
// lies in. Also sums up for each span what the kernel did while the span was open.
//
// A thread is in one place at a time, so that an event lies in the row that is open on its thread
// when it begins. Two BPF programs read the clock at slightly different moments: an event's times
// are clipped to those of the row.
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
  std::optional<int64_t> end_ns;  // nullopt: not known
  std::string spill_directory;
};

// Adds the events to the timeline. Events are cut at the borders of the window; those outside of it
// are left out and counted. Fails as TimelineBuilder::AddSpan() does.
absl::Status LinkSystem(SystemDecoder::Tables tables, const SystemWindow& window,
                        TimelineBuilder* timeline, Ledger* ledger);

}  // namespace proftrace
