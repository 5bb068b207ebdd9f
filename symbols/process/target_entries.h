// Opens entries of /proc that belong to a target. In a worker without rights
// (userspace/sandbox/worker.h), each call asks the process that started the worker, which answers
// only for that target (target_answers.h).
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <optional>
#include <string>

#include "userspace/base/unique_fd.h"
#include "userspace/sandbox/worker.h"

namespace proftrace {

// Opens an entry for reading, without waiting. Invalid: errno says why.
UniqueFd OpenEntry(const std::string& path);

// Returns the first `limit_bytes` of a file of ours or in /proc; empty: it cannot be read.
std::string ReadEntry(const std::string& path, size_t limit_bytes);

// Returns the status of an entry; nullopt: errno says why.
std::optional<struct stat> StatEntry(const std::string& path);

// Returns where a link of /proc leads; empty: the link cannot be read.
std::string ReadEntryLink(const std::string& path);

// Makes this process, a worker, ask for all entries from here on.
void AskForEntries(WorkerChannel* channel);

// Returns the channel by which this process asks; null: this process opens entries itself.
WorkerChannel* EntryChannel();

}  // namespace proftrace
