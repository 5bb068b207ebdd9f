// Where `merge` writes: a file, or a directory that appears whole or not at all.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <string>

namespace proftrace {

enum class MergeFormat : uint8_t { kChrome, kPerfetto, kDirectory };

// Returns the format of an output by its name: .json and .pftrace, each also with .gz; else it is a
// directory.
MergeFormat MergeFormatOf(const std::string& output);

// Has `work` write into the new directory `output`, which must be missing or empty. `work` gets the
// path of another one beside it, which takes its name when all is well, and is removed otherwise:
// also when a signal ends us meanwhile.
absl::Status WithNewDirectory(const std::string& output,
                              const std::function<absl::Status(const std::string& path)>& work);

// Ends by signals as usual again, in a process that `work` has started.
void EndBySignals();

}  // namespace proftrace
