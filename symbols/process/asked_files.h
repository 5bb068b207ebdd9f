// Gives a worker without rights the files of a target: the process that started the worker opens
// them, and reads the remote ones for it (remote_file.h).
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "symbols/process/held_file.h"
#include "symbols/process/process_maps.h"
#include "userspace/model/ids.h"
#include "userspace/sandbox/worker.h"

namespace proftrace {

// Do in a worker what OpenMappedFile() and OpenBelowRoot() do in other processes.
absl::StatusOr<OpenedFile> AskForMappedFile(Pid pid, const MappedFile& file);
std::shared_ptr<const HeldFile> AskForFileBelowRoot(Pid pid, const std::string& path);
// Reads a remote file, which is named by its state. Returns how many bytes were read.
size_t AskToRead(const FileState& state, uint64_t offset, void* buffer, size_t bytes);
bool AskWhetherUnchanged(const FileState& state);

// The other side, in the process that started the worker: the content of a question about a file,
// and the answers.
struct FileQuestion {
  Pid pid{};
  uint64_t device = 0;
  uint64_t inode = 0;
  std::string path;
};
FileQuestion FileQuestionIn(std::string_view question);
WorkerAnswer AnswerWithFile(const absl::StatusOr<OpenedFile>& opened);
// Returns the state of the file that a question kRead or kUnchanged is about.
FileState StateInQuestion(std::string_view question);
WorkerAnswer AnswerRead(const HeldFile& file, std::string_view question);
WorkerAnswer AnswerUnchanged(const HeldFile& file);

// Answers kRead and kUnchanged for one file, and refuses anything else.
WorkerAnswer AnswerForFile(const HeldFile& file, std::string_view question);

}  // namespace proftrace
