// The options that report and export share: which part of a recording is shown, and how rows are
// grouped.
#pragma once

#include <absl/status/status.h>

#include <CLI/CLI.hpp>
#include <vector>

#include "userspace/aggregate/key_averages.h"
#include "userspace/model/timeline.h"
#include "userspace/pipeline/process_choice.h"

namespace proftrace {

// Adds --pid and --rank.
void AddProcessOptions(CLI::App* command, ProcessChoice* choice);

// Adds --group-by-input-shape and the other options of torch's key_averages().
std::vector<CLI::Option*> AddGroupingOptions(CLI::App* command, KeyAveragesOptions* grouping);

inline bool IsGrouped(const KeyAveragesOptions& grouping) {
  return grouping.group_by_overload_name || grouping.group_by_input_shape ||
         grouping.group_by_stack_n > 0;
}

// Fails with kUsage where the recording lacks the data to group by.
absl::Status CheckGrouping(const KeyAveragesOptions& grouping, const Timeline& timeline);

}  // namespace proftrace
