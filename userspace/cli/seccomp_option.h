// The option by which the user tells the seccomp filter of a job whose filter this process cannot
// read.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "userspace/cli/option_kinds.h"
#include "userspace/inject/seccomp_filter.h"

namespace proftrace {

// Adds --seccomp, which takes effect as soon as it is read.
inline CLI::Option* AddSeccompOption(CLI::App* command) {
  const auto read = [](const CLI::results_t& texts) {
    if (!StateSeccomp(texts.back())) {
      throw CLI::ValidationError("--seccomp", "'" + texts.back() + "' is not runtime-default");
    }
    return true;
  };
  return command
      ->add_option("--seccomp", read,
                   "states that the job's seccomp filter is the default profile of the container's "
                   "runtime, which allows what jumps and the GPU agent need. It is asked for where "
                   "proftrace may not read the filter")
      ->type_name("runtime-default");
}

}  // namespace proftrace
