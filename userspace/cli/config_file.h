// Defaults of options that a site, or a user, has written into a file:
//
//     # /etc/proftrace/config
//     [record]
//     duration = 30s
//     with-stack = true
//
// A section is a command, a line one of its options by its long name. What is typed, and what
// excludes a default, holds against it; the user's file holds against the site's. Root reads the
// site's file alone, and only where nobody but root can have written it: the file of a user must
// not decide what root does for him.
#pragma once

#include <absl/status/statusor.h>

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace proftrace {

struct OptionDefault {
  std::string command;  // "record", "fleet report"
  std::string option;   // without the dashes in front
  std::string value;
  std::string place;  // "/etc/proftrace/config, line 3"
};

// Reads the text of a file at `path`. Fails with kUsage, by its line.
absl::StatusOr<std::vector<OptionDefault>> ParseConfig(std::string_view text,
                                                       const std::string& path);

// Reads the files that hold for this process; one that is missing has no defaults. Fails with
// kUsage where one cannot be read, or is not to be trusted.
absl::StatusOr<std::vector<OptionDefault>> ReadConfigFiles();

// Returns words to be put behind those of `command`, which was parsed: its defaults that nothing
// on the command line speaks against. Fails with kUsage where it has no such option.
absl::StatusOr<std::vector<std::string>> WordsOfDefaults(
    const CLI::App& command, const std::vector<OptionDefault>& defaults);

}  // namespace proftrace
