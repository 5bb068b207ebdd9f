// The events of `record --json`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "userspace/capture/recorder.h"
#include "userspace/cli/record_messages.h"
#include "userspace/cli/results.h"

namespace proftrace {

// Has each callback write an event too, after what it does already.
void AddEvents(const std::shared_ptr<RecordedTargets>& targets, RecordCallbacks* callbacks);

// Writes the event of a result that is there: `place`: its directory or archive, `files`: what is
// in it.
void WriteFinished(const std::string& place, const std::vector<std::string>& files,
                   const Results& results);

}  // namespace proftrace
