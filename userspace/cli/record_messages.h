// Makes the messages on standard error while a recording goes on.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "userspace/capture/session/recorder.h"
#include "userspace/cli/record_arguments.h"

namespace proftrace {

// The processes that are recorded when the recording begins, but for `refused`.
struct RecordedTargets {
  std::vector<Pid> pids;
  std::set<Pid> refused;
  std::string command;  // the command that was started; empty where there is none
};

// Returns callbacks that print messages for the user, unless --quiet was given.
RecordCallbacks TellingCallbacks(const RecordArguments& arguments,
                                 const std::shared_ptr<RecordedTargets>& targets);

// Prints that a large library is being analysed (PlanOptions::on_analysis).
void SayAnalysis(const std::string& build_id, uint64_t bytes);

}  // namespace proftrace
