// Looks at a trace while it is read for its facts, so that who needs each event once reads it once.
#pragma once

#include "userspace/collectives/source_input.h"

namespace proftrace {

// Traces in JSON call it, other inputs do not.
class SourceObserver {
 public:
  virtual ~SourceObserver() = default;
  // The reading begins; it may begin again.
  virtual void Begin() = 0;
  // Times are without SourceFacts::base_ns, which may stand behind the events.
  virtual void See(const SourceEvent& event) = 0;
};

}  // namespace proftrace
