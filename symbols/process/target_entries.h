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

// Opens an entry for reading. Not valid: errno says why. Waits for nobody.
UniqueFd OpenEntry(const std::string& path);

// Returns the first `limit_bytes` of a file of ours or in /proc; empty: it cannot be read.
std::string ReadEntry(const std::string& path, size_t limit_bytes);

// nullopt: errno says why.
std::optional<struct stat> StatEntry(const std::string& path);

// Returns where a link of /proc leads; empty: that cannot be read.
std::string ReadEntryLink(const std::string& path);

// Makes this process, a worker, ask for all of that from here on.
void AskForEntries(WorkerChannel* channel);

// Returns the channel of a process that asks; null: this process opens things itself.
WorkerChannel* EntryChannel();

}  // namespace proftrace
