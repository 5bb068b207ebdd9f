// How entries of /proc and files of a target are opened. In a worker without rights
// (userspace/sandbox/worker.h) that is a question to the process that started it, which answers for
// that target alone (target_answers.h).
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <optional>
#include <string>

#include "userspace/base/unique_fd.h"
#include "userspace/sandbox/worker.h"

namespace proftrace {

// To be read. Not valid: errno says why. Waits for nobody.
UniqueFd OpenEntry(const std::string& path);

// The first `limit_bytes` of a file of ours or in /proc; empty when it cannot be read.
std::string ReadEntry(const std::string& path, size_t limit_bytes);

// Nothing: errno says why.
std::optional<struct stat> StatEntry(const std::string& path);

// Where a link of /proc leads; empty = that cannot be read.
std::string ReadEntryLink(const std::string& path);

// From here on this process, a worker, asks for all of that.
void AskForEntries(WorkerChannel* channel);

// Of the process that asks; null: this process opens things itself.
WorkerChannel* EntryChannel();

}  // namespace proftrace
