// What of a recording is shown: the options that report and export share.
#pragma once

#include <CLI/CLI.hpp>

#include "userspace/pipeline/process_choice.h"

namespace proftrace {

// --pid and --rank.
void AddProcessOptions(CLI::App* command, ProcessChoice* choice);

}  // namespace proftrace
