#include "userspace/cli/view_options.h"

namespace proftrace {

void AddProcessOptions(CLI::App* command, ProcessChoice* choice) {
  CLI::Option* pid = command->add_option(
      "--pid", choice->pid,
      "rows of this process alone; without it rows of all processes are added up");
  command
      ->add_option("--rank", choice->rank, "likewise, of the process of this rank and its workers")
      ->excludes(pid);
}

}  // namespace proftrace
