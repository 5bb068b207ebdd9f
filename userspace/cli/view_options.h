// The options that report and export share: what of a recording is shown, and how rows are grouped.
#pragma once

#include <absl/status/status.h>

#include <CLI/CLI.hpp>
#include <vector>

#include "userspace/aggregate/key_averages.h"
#include "userspace/model/timeline.h"
#include "userspace/pipeline/process_choice.h"

namespace proftrace {

// --pid and --rank.
void AddProcessOptions(CLI::App* command, ProcessChoice* choice);

// --group-by-input-shape and the others of torch's key_averages().
std::vector<CLI::Option*> AddGroupingOptions(CLI::App* command, KeyAveragesOptions* grouping);

inline bool IsGrouped(const KeyAveragesOptions& grouping) {
  return grouping.group_by_overload_name || grouping.group_by_input_shape ||
         grouping.group_by_stack_n > 0;
}

// Whether the recording has what to group by. Fails with kUsage.
absl::Status CheckGrouping(const KeyAveragesOptions& grouping, const Timeline& timeline);

}  // namespace proftrace
