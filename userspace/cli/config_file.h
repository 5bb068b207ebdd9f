// Reads defaults of options that a site or a user has written into a file:
//
//     # /etc/proftrace/config
//     [record]
//     duration = 30s
//     with-stack = true
//
// A section is a command, and a line is one of its options by its long name. An option on the
// command line overrides a default, and so does an option that excludes it; the user's file
// overrides the site's. Root reads the site's file only, and only if nobody but root can have
// written it: a user's file must not decide what root does for that user.
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

// Parses the text of the file `path`. Fails with kUsage, and names the line.
absl::StatusOr<std::vector<OptionDefault>> ParseConfig(std::string_view text,
                                                       const std::string& path);

// Reads the files that apply to this process; a missing file has no defaults. Fails with kUsage
// where a file cannot be read or is not trusted.
absl::StatusOr<std::vector<OptionDefault>> ReadConfigFiles();

// Returns the words to be added to the command line of `command`, which was parsed: those of its
// defaults that no option on the command line overrides or excludes. Fails with kUsage where the
// command has no such option.
absl::StatusOr<std::vector<std::string>> WordsOfDefaults(
    const CLI::App& command, const std::vector<OptionDefault>& defaults);

}  // namespace proftrace
