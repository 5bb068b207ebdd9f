// Makes the output of `merge`: a file, or a directory that appears whole or not at all.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <string>

namespace proftrace {

enum class MergeFormat : uint8_t { kChrome, kPerfetto, kDirectory };

// Returns the format of an output by its name: .json and .pftrace, each also with .gz; kDirectory
// for any other name.
MergeFormat MergeFormatOf(const std::string& output);

// Makes `work` write the new directory `output`, which must be missing or empty. `work` gets the
// path of a temporary directory beside it, which is renamed to `output` on success. Otherwise it is
// removed, even if a signal ends this process.
absl::Status WithNewDirectory(const std::string& output,
                              const std::function<absl::Status(const std::string& path)>& work);

// Restores the usual effect of ending signals. To be called in a process that `work` has started.
void EndBySignals();

}  // namespace proftrace
