#include "userspace/cli/view_options.h"

#include <string>

#include "userspace/base/exit_status.h"

namespace proftrace {

void AddProcessOptions(CLI::App* command, ProcessChoice* choice) {
  CLI::Option* pid = command->add_option(
      "--pid", choice->pid,
      "shows only rows of this process; without it rows of all processes are added up");
  command
      ->add_option("--rank", choice->rank,
                   "shows only rows of the process of this rank and of its workers")
      ->excludes(pid);
}

std::vector<CLI::Option*> AddGroupingOptions(CLI::App* command, KeyAveragesOptions* grouping) {
  return {
      command->add_flag("--group-by-overload-name", grouping->group_by_overload_name,
                        "makes one row for each overload of an operator"),
      command->add_flag("--group-by-input-shape", grouping->group_by_input_shape,
                        "makes one row for each name and shapes of inputs"),
      command->add_option(
          "--group-by-stack-n", grouping->group_by_stack_n,
          "makes one row for each name and N innermost frames of the stack, as torch does"),
  };
}

absl::Status CheckGrouping(const KeyAveragesOptions& grouping, const Timeline& timeline) {
  if (grouping.group_by_input_shape && !timeline.has_inputs()) {
    return Fail(ExitCode::kUsage,
                "--group-by-input-shape: no shapes are in this recording; record with "
                "--record-shapes");
  }
  if (grouping.group_by_stack_n > 0 && !timeline.has_stacks()) {
    return Fail(ExitCode::kUsage, "--group-by-stack-n " +
                                      std::to_string(grouping.group_by_stack_n) +
                                      ": no Python stacks are in this recording; record with "
                                      "--with-stack");
  }
  return absl::OkStatus();
}

}  // namespace proftrace
