// Writes an event of a merged timeline as text in Chrome's format.
#pragma once

#include <cstdint>
#include <optional>

#include "exporters/sinks/json_writer.h"
#include "userspace/collectives/source_input.h"

namespace proftrace {

struct ChromeEvent {
  const SourceEvent& event;  // all members but the following ones
  SourceId pid;
  SourceId tid;
  int64_t base_ns = 0;  // the moment that times count from
  std::optional<uint64_t> id;
};

// Writes one object, without a line end. Times are microseconds with three decimals, as Kineto's.
void WriteChromeEvent(const ChromeEvent& event, JsonStream* json);

}  // namespace proftrace
