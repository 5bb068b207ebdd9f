// Files of a target as a worker without rights has them: opened by the process that started it, and
// read by that one, too, where another process reads them (remote_file.h).
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "symbols/held_file.h"
#include "symbols/process_maps.h"
#include "userspace/model/ids.h"
#include "userspace/sandbox/worker.h"

namespace proftrace {

// In a worker: as OpenMappedFile() and OpenBelowRoot().
absl::StatusOr<OpenedFile> AskForMappedFile(Pid pid, const MappedFile& file);
std::shared_ptr<const HeldFile> AskForFileBelowRoot(Pid pid, const std::string& path);
// Of a remote file, told by its state; how many bytes were read.
size_t AskToRead(const FileState& state, uint64_t offset, void* buffer, size_t bytes);
bool AskWhetherUnchanged(const FileState& state);

// On the other side. What such questions say; the answers to them.
struct FileQuestion {
  Pid pid{};
  uint64_t device = 0;
  uint64_t inode = 0;
  std::string path;
};
FileQuestion FileQuestionIn(std::string_view question);
WorkerAnswer AnswerWithFile(const absl::StatusOr<OpenedFile>& opened);
// Of kRead and kUnchanged: the state of the file that is meant.
FileState StateInQuestion(std::string_view question);
WorkerAnswer AnswerRead(const HeldFile& file, std::string_view question);
WorkerAnswer AnswerUnchanged(const HeldFile& file);

// Answers both for one file, and refuses anything else.
WorkerAnswer AnswerForFile(const HeldFile& file, std::string_view question);

}  // namespace proftrace
