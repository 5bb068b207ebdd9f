// What is said on standard error while a recording goes on.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "userspace/capture/recorder.h"
#include "userspace/cli/record_arguments.h"

namespace proftrace {

// What is recorded, as it is when it begins; `RecordedTargets::refused` are not.
struct RecordedTargets {
  std::vector<Pid> pids;
  std::set<Pid> refused;
  std::string command;  // that was started; empty: there is none
};

// Returns callbacks that say what users want to know, as far as they have not asked for quiet.
RecordCallbacks TellingCallbacks(const RecordArguments& arguments,
                                 const std::shared_ptr<RecordedTargets>& targets);

// Says that a large library is analysed (PlanOptions::on_analysis).
void SayAnalysis(const std::string& build_id, uint64_t bytes);

}  // namespace proftrace
