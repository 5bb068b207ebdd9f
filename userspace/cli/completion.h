// Scripts that have a shell complete what is typed behind "proftrace": commands, options, and what
// options take, from the options themselves. What changes while one types (PIDs) the script asks
// `proftrace list` for.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace proftrace {

std::string BashCompletion(const CLI::App& app);
std::string ZshCompletion(const CLI::App& app);
std::string FishCompletion(const CLI::App& app);

}  // namespace proftrace
