// Writes the events of `record --json`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "userspace/capture/session/recorder.h"
#include "userspace/cli/record_messages.h"
#include "userspace/cli/results.h"

namespace proftrace {

// Makes each callback also write an event, after it has done its present work.
void AddEvents(const std::shared_ptr<RecordedTargets>& targets, RecordCallbacks* callbacks);

// Writes the event that a result is complete. `place`: its directory or archive; `files`: the names
// of its files.
void WriteFinished(const std::string& place, const std::vector<std::string>& files,
                   const Results& results);

}  // namespace proftrace
