#include "symbols/plan/target_answers.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "symbols/process/mounts.h"
#include "symbols/process/target_entries.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

// The most files that are noted. Only a hostile process has mapped more.
constexpr size_t kMostFiles = 16384;
constexpr std::string_view kMapFiles = "map_files/";
constexpr std::string_view kVersionFile = "/torch/version.py";
constexpr std::array<std::string_view, 14> kEntries = {
    "",     "auxv", "cmdline",   "comm", "environ", "exe",  "cgroup",
    "maps", "mem",  "mountinfo", "stat", "status",  "task", "timens_offsets"};

constexpr std::array<std::string_view, 4> kTaskEntries = {"/comm", "/status", "/syscall", "/wchan"};
constexpr std::string_view kDescriptors = "fd/";

WorkerAnswer AnswerWith(int error, std::string_view bytes = {}, UniqueFd fd = UniqueFd()) {
  const auto number = static_cast<uint32_t>(error);
  WorkerAnswer answer;
  answer.bytes.assign(reinterpret_cast<const char*>(&number), sizeof(number));
  answer.bytes.append(bytes);
  answer.fd = std::move(fd);
  return answer;
}

bool IsRange(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || c == '-';
  });
}

// Whether the entry is a directory from which everything could be opened, or an open file of the
// target. A worker may ask only where such an entry leads.
bool IsLink(const std::string& path) {
  return path.ends_with("/root") || path.ends_with("/cwd") || Contains(path, "/fd/");
}

}  // namespace

WorkerAnswer RefusalOfEntries() { return AnswerWith(EACCES); }

bool TargetAnswers::IsOfTarget(std::string_view path) const {
  if (!ConsumeText(&path, "/proc/")) return false;
  const size_t slash = path.find('/');
  const std::string_view number = path.substr(0, slash);
  const auto tid = ParseNumber<uint32_t>(number);
  if (!tid) return false;
  std::string_view entry = slash == std::string_view::npos ? "" : path.substr(slash + 1);
  const bool is_of_task = ConsumeText(&entry, "task/");
  if (is_of_task) entry.remove_prefix(std::min(entry.find('/'), entry.size()));
  const bool is_read =
      is_of_task
          ? std::find(kTaskEntries.begin(), kTaskEntries.end(), entry) != kTaskEntries.end()
          : entry == "root" || entry == "cwd" ||
                std::find(kEntries.begin(), kEntries.end(), entry) != kEntries.end() ||
                (entry.starts_with(kMapFiles) && IsRange(entry.substr(kMapFiles.size()))) ||
                (entry.starts_with(kDescriptors) && IsRange(entry.substr(kDescriptors.size())));
  if (!is_read) return false;
  if (*tid == Raw(pid_)) return true;
  const std::string task = "/proc/" + std::to_string(Raw(pid_)) + "/task/" + std::to_string(*tid);
  return StatEntry(task).has_value();
}

WorkerAnswer TargetAnswers::Answer(std::string_view question) {
  if (question.empty()) return AnswerWith(EPROTO);
  const auto kind = static_cast<EntryQuestion>(question.front());
  question.remove_prefix(1);
  const std::string path(question);
  switch (kind) {
    case EntryQuestion::kOpen:
      return Open(path);
    case EntryQuestion::kText:
      return ReadText(question);
    case EntryQuestion::kStat:
      return Stat(path);
    case EntryQuestion::kLink:
      return IsOfTarget(path) ? AnswerWith(0, ReadEntryLink(path)) : AnswerWith(EACCES);
    case EntryQuestion::kMappedFile:
      return OpenMapped(question);
    case EntryQuestion::kBelowRoot:
      return OpenBelow(question);
    case EntryQuestion::kRead:
    case EntryQuestion::kUnchanged:
      return Read(kind, question);
    case EntryQuestion::kKnownFacts:
      return FactsOf(question, /*may_analyse=*/false);
    case EntryQuestion::kFacts:
      return FactsOf(question, /*may_analyse=*/true);
    case EntryQuestion::kPrepare:
      return Prepare(question);
  }
  return AnswerWith(EPROTO);
}

WorkerAnswer TargetAnswers::Open(const std::string& path) {
  // Mapped files are left to OpenMapped(), because opening one may wait for ever.
  if (!IsOfTarget(path) || IsLink(path) || Contains(path, kMapFiles)) return AnswerWith(EACCES);
  UniqueFd fd = OpenEntry(path);
  if (!fd.valid()) return AnswerWith(errno);
  return AnswerWith(0, {}, std::move(fd));
}

WorkerAnswer TargetAnswers::ReadText(std::string_view question) const {
  uint32_t limit = 0;
  if (question.size() < sizeof(limit)) return AnswerWith(EPROTO);
  std::memcpy(&limit, question.data(), sizeof(limit));
  const std::string path(question.substr(sizeof(limit)));
  // The text of "mem" would have no end.
  if (!IsOfTarget(path) || IsLink(path) || path.ends_with("/mem")) return AnswerWith(EACCES);
  return AnswerWith(0, ReadEntry(path, limit));
}

WorkerAnswer TargetAnswers::Stat(const std::string& path) {
  if (!IsOfTarget(path)) return AnswerWith(EACCES);
  const bool is_mapping = Contains(path, kMapFiles);
  if (is_mapping && !IsLocalMapping(path.substr(path.rfind('/') + 1))) return AnswerWith(EREMOTE);
  const std::optional<struct stat> status = StatEntry(path);
  if (!status) return AnswerWith(errno);
  return AnswerWith(0, {reinterpret_cast<const char*>(&*status), sizeof(*status)});
}

// Whether the path is that of a file that the target has mapped, or of torch's version.py. A worker
// may read no others.
bool TargetAnswers::IsOfFile(const std::string& path) {
  if (path.ends_with(kVersionFile)) return true;
  const std::string root =
      ReadEntryLink("/proc/" + std::to_string(Raw(LivingThread(pid_))) + "/root");
  const auto is_it = [&](const auto& mapped) { return PathBelowRoot(mapped.path, root) == path; };
  if (std::any_of(files_.begin(), files_.end(), is_it)) return true;
  const auto mappings = ReadMaps(pid_);
  return mappings.ok() && std::any_of(mappings->begin(), mappings->end(), is_it);
}

absl::Status TargetAnswers::LookAtFiles(bool again) {
  if (!again && !files_.empty()) return absl::OkStatus();
  const auto mappings = ReadMaps(pid_);
  if (!mappings.ok()) return mappings.status();
  files_ = GroupByFile(*mappings);
  return absl::OkStatus();
}

bool TargetAnswers::IsLocalMapping(std::string_view range) {
  for (const bool again : {false, true}) {
    if (!LookAtFiles(again).ok()) return false;
    for (const MappedFile& file : files_) {
      const bool is_of_file =
          std::any_of(file.mappings.begin(), file.mappings.end(),
                      [&](const Mapping& mapping) { return MappingRange(mapping) == range; });
      if (is_of_file) return !MountOfDevice(pid_, file.device).is_remote;
    }
  }
  return false;
}

absl::StatusOr<OpenedFile> TargetAnswers::OpenAgain(const FileQuestion& asked) {
  if (asked.inode == 0) {
    std::shared_ptr<const HeldFile> held = OpenBelowRoot(pid_, asked.path);
    if (held == nullptr) return absl::NotFoundError("it cannot be opened");
    return OpenedFile{std::move(held), asked.path};
  }
  // The list of mapped files is read once for all questions, and again where the file is not in it
  // or cannot be opened by it.
  for (const bool again : {false, true}) {
    if (absl::Status status = LookAtFiles(again); !status.ok()) return status;
    for (const MappedFile& file : files_) {
      if (file.device != asked.device || file.inode != asked.inode || file.path != asked.path) {
        continue;
      }
      absl::StatusOr<OpenedFile> opened = OpenMappedFile(pid_, file);
      if (again || opened.ok()) return opened;
    }
  }
  return absl::NotFoundError("it is not mapped");
}

WorkerAnswer TargetAnswers::Give(const absl::StatusOr<OpenedFile>& opened,
                                 const FileQuestion& question) {
  if (opened.ok() && places_.size() < kMostFiles) {
    const FileState& state = opened->file->state();
    places_.try_emplace(state, question);
    if (opened->file->is_remote()) remote_[state] = opened->file;
  }
  return AnswerWithFile(opened);
}

WorkerAnswer TargetAnswers::OpenMapped(std::string_view question) {
  const FileQuestion asked = FileQuestionIn(question);
  if (asked.pid != pid_ || asked.inode == 0) return RefusalOfEntries();
  return Give(OpenAgain(asked), asked);
}

WorkerAnswer TargetAnswers::OpenBelow(std::string_view question) {
  const FileQuestion asked = FileQuestionIn(question);
  const std::string& path = asked.path;
  if (asked.pid != pid_ || asked.inode != 0 || path.empty() || path.front() != '/' ||
      !IsOfFile(path)) {
    return RefusalOfEntries();
  }
  return Give(OpenAgain(asked), asked);
}

WorkerAnswer TargetAnswers::Read(EntryQuestion kind, std::string_view question) const {
  const auto file = remote_.find(StateInQuestion(question));
  if (file == remote_.end()) return RefusalOfEntries();
  return kind == EntryQuestion::kRead ? AnswerRead(*file->second, question)
                                      : AnswerUnchanged(*file->second);
}

std::shared_ptr<const HeldFile> TargetAnswers::Held(const FileState& state) const {
  const auto found = held_.find(state);
  return found == held_.end() ? nullptr : found->second;
}

// Returns the file with that state, null: none was opened for the worker. Opens the file once more,
// because files that contribute nothing are not held.
std::shared_ptr<const HeldFile> TargetAnswers::Hold(const FileState& state) {
  if (auto held = Held(state)) return held;
  if (const auto remote = remote_.find(state); remote != remote_.end()) return remote->second;
  const auto place = places_.find(state);
  if (place == places_.end()) return nullptr;
  const absl::StatusOr<OpenedFile> opened = OpenAgain(place->second);
  return opened.ok() && opened->file->state() == state ? opened->file : nullptr;
}

WorkerAnswer TargetAnswers::Prepare(std::string_view question) {
  if (facts_ == nullptr) return AnswerWith(EPROTO);
  std::vector<FactsWanted> files;
  for (const auto& [state, build_id] : FilesToPrepare(question)) {
    if (std::shared_ptr<const HeldFile> held = Hold(state); held != nullptr) {
      files.push_back({std::move(held), build_id});
    }
  }
  facts_->Prepare(files);
  return AnswerWith(0);
}

WorkerAnswer TargetAnswers::FactsOf(std::string_view question, bool may_analyse) {
  FileState state;
  if (facts_ == nullptr || question.size() < sizeof(state)) return AnswerWith(EPROTO);
  std::memcpy(&state, question.data(), sizeof(state));
  const std::string build_id(question.substr(sizeof(state)));
  const std::shared_ptr<const HeldFile> held = Hold(state);
  if (held == nullptr) return AnswerWith(ESTALE);
  const std::string facts =
      may_analyse ? facts_->Find(held, build_id) : facts_->Known(*held, build_id);
  if (!facts.empty()) held_.try_emplace(state, held);
  return AnswerWith(0, facts);
}

}  // namespace proftrace
