// Makes scripts by which shells complete command lines of proftrace: commands, options and their
// values, as the option parser knows them. For PIDs, which change all the time, the script calls
// `proftrace list`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace proftrace {

std::string BashCompletion(const CLI::App& app);
std::string ZshCompletion(const CLI::App& app);
std::string FishCompletion(const CLI::App& app);

}  // namespace proftrace
