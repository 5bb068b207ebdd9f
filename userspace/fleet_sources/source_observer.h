// Sees the events of a trace while the trace is read for its facts, so that a caller that needs
// each event once does not read the file a second time.
#pragma once

#include "userspace/collectives/source_input.h"

namespace proftrace {

// Only traces in JSON call an observer.
class SourceObserver {
 public:
  virtual ~SourceObserver() = default;
  // Is called when the reading begins. It may begin again, from the first event on.
  virtual void Begin() = 0;
  // Takes an event. Times are without SourceFacts::base_ns, which may stand behind the events in
  // the file.
  virtual void See(const SourceEvent& event) = 0;
};

}  // namespace proftrace
