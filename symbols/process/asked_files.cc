#include "symbols/process/asked_files.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "symbols/process/cache_bytes.h"
#include "symbols/process/entry_questions.h"
#include "symbols/process/target_entries.h"
#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

// The most bytes of one answer to kRead.
constexpr size_t kMostBytesAtOnce = size_t{4} << 20;

std::string QuestionOf(EntryQuestion kind, CacheWriter* words) {
  return static_cast<char>(kind) + words->Take();
}

std::string_view StateText(const FileState& state) {
  return {reinterpret_cast<const char*>(&state), sizeof(state)};
}

// Returns the file in an answer, whose facts about the file lie behind its errno value.
absl::StatusOr<OpenedFile> FileIn(WorkerAnswer answer) {
  CacheReader in(answer.bytes);
  if (const uint32_t error = in.Number<uint32_t>(); error != 0 || !in.ok()) {
    const auto code = static_cast<ExitCode>(in.Number<uint32_t>());
    const std::string text = in.Text();
    if (code != ExitCode::kBug && in.ok()) return Fail(code, text);
    return error == EACCES || error == EPERM ? absl::PermissionDeniedError(text)
                                             : absl::NotFoundError(text);
  }
  RemoteFile file;
  file.is_asked = in.Number<uint8_t>() != 0;
  file.mount = in.Number<uint64_t>();
  const std::string status = in.Text();
  OpenedFile opened;
  opened.path = in.Text();
  if (!in.ok() || status.size() != sizeof(file.status)) return absl::NotFoundError("no answer");
  std::memcpy(&file.status, status.data(), status.size());
  file.fd = std::move(answer.fd);
  opened.file = HeldFile::Hold(std::move(file));
  if (opened.file == nullptr) return absl::NotFoundError("it came without a descriptor");
  return opened;
}

WorkerAnswer AnswerOf(uint32_t error, CacheWriter* words) {
  WorkerAnswer answer;
  answer.bytes.assign(reinterpret_cast<const char*>(&error), sizeof(error));
  answer.bytes += words->Take();
  return answer;
}

}  // namespace

absl::StatusOr<OpenedFile> AskForMappedFile(Pid pid, const MappedFile& file) {
  CacheWriter words;
  words.Number(Raw(pid));
  words.Number(file.device);
  words.Number(file.inode);
  words.Text(file.path);
  return FileIn(EntryChannel()->Ask(QuestionOf(EntryQuestion::kMappedFile, &words)));
}

std::shared_ptr<const HeldFile> AskForFileBelowRoot(Pid pid, const std::string& path) {
  CacheWriter words;
  words.Number(Raw(pid));
  words.Number(uint64_t{0});
  words.Number(uint64_t{0});
  words.Text(path);
  auto opened = FileIn(EntryChannel()->Ask(QuestionOf(EntryQuestion::kBelowRoot, &words)));
  return opened.ok() ? std::move(opened->file) : nullptr;
}

size_t AskToRead(const FileState& state, uint64_t offset, void* buffer, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    CacheWriter words;
    words.Text(StateText(state));
    words.Number(offset + done);
    words.Number(static_cast<uint64_t>(std::min(bytes - done, kMostBytesAtOnce)));
    const WorkerAnswer answer = EntryChannel()->Ask(QuestionOf(EntryQuestion::kRead, &words));
    CacheReader in(answer.bytes);
    if (in.Number<uint32_t>() != 0) break;
    const std::string read = in.Text();
    if (read.empty() || read.size() > bytes - done) break;
    std::memcpy(static_cast<char*>(buffer) + done, read.data(), read.size());
    done += read.size();
  }
  return done;
}

bool AskWhetherUnchanged(const FileState& state) {
  CacheWriter words;
  words.Text(StateText(state));
  const WorkerAnswer answer = EntryChannel()->Ask(QuestionOf(EntryQuestion::kUnchanged, &words));
  CacheReader in(answer.bytes);
  return in.Number<uint32_t>() == 0 && in.Number<uint8_t>() != 0;
}

FileQuestion FileQuestionIn(std::string_view question) {
  CacheReader in(question);
  FileQuestion asked;
  asked.pid = Pid{in.Number<uint32_t>()};
  asked.device = in.Number<uint64_t>();
  asked.inode = in.Number<uint64_t>();
  asked.path = in.Text();
  return asked;
}

WorkerAnswer AnswerWithFile(const absl::StatusOr<OpenedFile>& opened) {
  CacheWriter words;
  if (!opened.ok()) {
    words.Number(static_cast<uint32_t>(ExitCodeOf(opened.status())));
    words.Text(std::string(opened.status().message()));
    return AnswerOf(absl::IsPermissionDenied(opened.status()) ? EPERM : ENOENT, &words);
  }
  const HeldFile& file = *opened->file;
  words.Number(static_cast<uint8_t>(file.is_remote() ? 1 : 0));
  words.Number(file.mount());
  words.Text({reinterpret_cast<const char*>(&file.status()), sizeof(file.status())});
  words.Text(opened->path);
  WorkerAnswer answer = AnswerOf(0, &words);
  if (!file.is_remote()) answer.fd = UniqueFd(fcntl(file.fd(), F_DUPFD_CLOEXEC, 0));
  return answer;
}

FileState StateInQuestion(std::string_view question) {
  CacheReader in(question);
  FileState state;
  const std::string text = in.Text();
  if (text.size() == sizeof(state)) std::memcpy(&state, text.data(), sizeof(state));
  return state;
}

WorkerAnswer AnswerRead(const HeldFile& file, std::string_view question) {
  CacheReader in(question);
  in.Text();
  const uint64_t offset = in.Number<uint64_t>();
  const uint64_t bytes = std::min<uint64_t>(in.Number<uint64_t>(), kMostBytesAtOnce);
  std::string read(bytes, '\0');
  read.resize(file.ReadAt(offset, read.data(), read.size()));
  CacheWriter words;
  words.Text(read);
  return AnswerOf(0, &words);
}

WorkerAnswer AnswerUnchanged(const HeldFile& file) {
  CacheWriter words;
  words.Number(static_cast<uint8_t>(file.IsUnchanged() ? 1 : 0));
  return AnswerOf(0, &words);
}

WorkerAnswer AnswerForFile(const HeldFile& file, std::string_view question) {
  CacheWriter none;
  if (question.empty()) return AnswerOf(EPROTO, &none);
  const auto kind = static_cast<EntryQuestion>(question.front());
  question.remove_prefix(1);
  if (StateInQuestion(question) != file.state()) return AnswerOf(EACCES, &none);
  if (kind == EntryQuestion::kRead) return AnswerRead(file, question);
  if (kind == EntryQuestion::kUnchanged) return AnswerUnchanged(file);
  return AnswerOf(EACCES, &none);
}

}  // namespace proftrace
