#include "userspace/fleet_tables/fleet_directory.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "exporters/sinks/escape.h"
#include "userspace/base/dumped_json.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/shown_text.h"
#include "userspace/base/stable_hash.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kMark[] = "fleet.json";
constexpr char kLockFile[] = "lock";
constexpr char kInputs[] = "inputs";
constexpr std::string_view kWhole = ".json";
constexpr std::string_view kPending = ".pending";
constexpr std::string_view kFailed = ".failed";
constexpr int kDirectoryVersion = 1;
constexpr size_t kLongestFolder = 200;  // file systems take 255 bytes
constexpr size_t kLongestValue = 120;

// A sink that keeps its folder open for as long as it is written.
class SinkInFolder final : public ByteSink {
 public:
  SinkInFolder(std::unique_ptr<OutputDirectory> folder, std::unique_ptr<ByteSink> sink)
      : folder_(std::move(folder)), sink_(std::move(sink)) {}
  absl::Status Write(std::string_view bytes) override { return sink_->Write(bytes); }
  absl::Status Finish() override { return sink_->Finish(); }

 private:
  std::unique_ptr<OutputDirectory> folder_;
  std::unique_ptr<ByteSink> sink_;
};

absl::Status CannotWriteInto(const std::string& path, const std::string& why) {
  return Fail(ExitCode::kOutputFailed, "cannot write into " + ShownText(path) + ": " + why);
}

std::string Reason(const absl::Status& status) { return std::string(status.message()); }

std::optional<std::string> ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

// Returns whether a path stays inside of the directory. Records are not trusted to name only such
// paths.
bool IsInside(const std::string& path) {
  if (path.empty() || path.front() == '/') return false;
  for (const std::string_view part : SplitText(path, "/", /*skip_empty=*/false)) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return true;
}

Json JsonOf(const InputRecord& record) {
  Json json = {{"path", ToValidUtf8(record.stamp.path)},
               {"bytes", record.stamp.bytes},
               {"modified_ns", record.stamp.modified_ns},
               {"inode", record.stamp.inode},
               {"parts", record.parts},
               {"files", record.files},
               {"writer", record.writer}};
  if (!record.replaces.empty()) json["replaces"] = record.replaces;
  if (record.is_removal) json["is_removal"] = true;
  if (record.is_summary) json["is_summary"] = true;
  if (!record.failure.empty()) json["failure"] = ToValidUtf8(record.failure);
  return json;
}

std::optional<InputRecord> RecordOf(const std::string& name, const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  InputRecord record;
  record.name = name;
  try {
    json.at("path").get_to(record.stamp.path);
    json.at("bytes").get_to(record.stamp.bytes);
    json.at("modified_ns").get_to(record.stamp.modified_ns);
    json.at("inode").get_to(record.stamp.inode);
    json.at("parts").get_to(record.parts);
    json.at("files").get_to(record.files);
    if (const auto it = json.find("replaces"); it != json.end()) {
      // Older versions wrote a single name.
      record.replaces = it->is_string() ? std::vector{it->get<std::string>()}
                                        : it->get<std::vector<std::string>>();
    }
    record.failure = json.value("failure", "");
    record.writer = json.value("writer", int64_t{0});
    record.is_removal = json.value("is_removal", false);
    record.is_summary = json.value("is_summary", false);
  } catch (const Json::exception&) {
    return std::nullopt;
  }
  std::erase_if(record.files, [](const std::string& file) { return !IsInside(file); });
  return record;
}

}  // namespace

std::string SeriesOf(const InputRecord& record) {
  if (record.parts.empty()) return "";
  return record.parts.front().substr(0, record.parts.front().find('-'));
}

std::string PartitionFolder(std::string_view column, std::string_view value) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string folder(column);
  folder += '=';
  if (value.empty()) return folder + "-";
  for (const char byte : value) {
    const bool is_plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                          (byte >= '0' && byte <= '9') || byte == '.' || byte == '_' || byte == '-';
    if (is_plain) {
      folder += byte;
      continue;
    }
    const auto number = static_cast<unsigned char>(byte);
    folder += '%';
    folder += kDigits[number >> 4];
    folder += kDigits[number & 15];
  }
  if (folder.size() <= kLongestFolder) return folder;
  folder.resize(kLongestValue);
  // Drops an encoded byte that was cut in half.
  if (const size_t at = folder.rfind('%'); at != std::string::npos && at + 3 > folder.size()) {
    folder.resize(at);
  }
  return folder + "-" + StableHash().Add(value).Hex();
}

absl::StatusOr<std::unique_ptr<FleetDirectory>> FleetDirectory::OpenOrMake(
    const std::string& path) {
  absl::StatusOr<GuardedFolder> folder = GuardedFolder::OpenOrMake(path);
  if (!folder.ok()) return CannotWriteInto(path, Reason(folder.status()));
  if (const std::string why = folder->WhyNotTrusted(); !why.empty()) {
    return CannotWriteInto(path, why);
  }
  const bool is_marked = folder->Find(kMark).has_value();
  // Another process may have made the directory, and be about to mark it.
  if (!is_marked && !folder->IsEmpty() && !folder->Find(kLockFile)) {
    return proftrace::Fail(ExitCode::kUsage,
                           ShownText(path) +
                               " is there and is no directory of a fleet; name a new "
                               "one with -o");
  }
  std::unique_ptr<FleetDirectory> directory(new FleetDirectory(*std::move(folder), path));
  if (absl::Status status = directory->Mark(); !status.ok()) return status;
  return directory;
}

absl::StatusOr<std::unique_ptr<FleetDirectory>> FleetDirectory::Open(const std::string& path) {
  absl::StatusOr<GuardedFolder> folder = GuardedFolder::Open(path);
  const std::optional<std::string> mark = ReadText(path + "/" + kMark);
  if (!folder.ok() || !mark) {
    return proftrace::Fail(ExitCode::kUsage, ShownText(path) +
                                                 " is no directory of a fleet; make one with "
                                                 "'proftrace fleet ingest INPUT... -o DIR'");
  }
  const Json json = Json::parse(*mark, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("proftrace_fleet") ||
      json.at("proftrace_fleet") != kDirectoryVersion) {
    return proftrace::Fail(
        ExitCode::kInputDamaged,
        ShownText(path) + "/" + kMark + " is damaged, or of another version of proftrace");
  }
  return std::unique_ptr<FleetDirectory>(new FleetDirectory(*std::move(folder), path));
}

absl::StatusOr<std::unique_ptr<FleetDirectory>> FleetDirectory::OfDescriptor(
    int fd, const std::string& path) {
  absl::StatusOr<GuardedFolder> folder = GuardedFolder::OfDescriptor(fd, path);
  if (!folder.ok()) return CannotWriteInto(path, Reason(folder.status()));
  return std::unique_ptr<FleetDirectory>(new FleetDirectory(*std::move(folder), path));
}

absl::Status FleetDirectory::Mark() const {
  const UniqueFd lock = folder_.OpenLock(kLockFile);
  if (!lock.valid()) return CannotWriteInto(path_, ErrnoText(errno));
  if (folder_.Find(kMark)) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<ByteSink>> sink = Create(kMark);
  if (!sink.ok()) return sink.status();
  absl::Status status =
      (*sink)->Write(DumpedJson(Json({{"proftrace_fleet", kDirectoryVersion}})) + "\n");
  return status.ok() ? (*sink)->Finish() : status;
}

absl::StatusOr<std::optional<FleetDirectory::Lock>> FleetDirectory::TryLock(std::string_view name,
                                                                            bool waits) const {
  UniqueFd fd = folder_.OpenLock(kLockFile);
  if (!fd.valid()) return CannotWriteInto(path_, ErrnoText(errno));
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(StableHash().Add(name).value() >> 2);
  range.l_len = 1;
  while (fcntl(fd.get(), waits ? F_OFD_SETLKW : F_OFD_SETLK, &range) != 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EACCES) return std::optional<Lock>();
    return CannotWriteInto(path_, "it cannot be locked: " + ErrnoText(errno));
  }
  return std::optional<Lock>(Lock(std::move(fd)));
}

std::vector<std::string> FleetDirectory::NamesWith(std::string_view ending) const {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator at(folder_.DescriptorPath() + "/" + kInputs, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    std::string name = at->path().filename().string();
    if (!name.ends_with(ending)) continue;
    name.resize(name.size() - ending.size());
    names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<InputRecord> FleetDirectory::ReadRecord(const std::string& name,
                                                      std::string_view ending) const {
  const std::optional<std::string> text = ReadText(
      absl::StrCat(folder_.DescriptorPath(), "/", kInputs, "/", name, std::string(ending)));
  return text ? RecordOf(name, *text) : std::nullopt;
}

std::optional<InputRecord> FleetDirectory::Find(const std::string& name) const {
  return ReadRecord(name, kWhole);
}

absl::StatusOr<std::map<std::string, InputRecord>> FleetDirectory::Inputs() const {
  std::map<std::string, InputRecord> inputs;
  for (const std::string& name : NamesWith(kWhole)) {
    auto record = ReadRecord(name, kWhole);
    if (!record) {
      return proftrace::Fail(ExitCode::kInputDamaged,
                             absl::StrCat(ShownText(path_), "/", kInputs, "/", name, ".json",
                                          " is damaged; remove it and ingest its input again"));
    }
    inputs.emplace(name, *std::move(record));
  }
  // A process that was killed before it removed the older input leaves both: only the newer one
  // counts.
  std::vector<std::string> replaced;
  for (const auto& [name, record] : inputs) {
    for (const std::string& older : record.replaces) {
      if (older != name) replaced.push_back(older);
    }
  }
  for (const std::string& name : replaced) inputs.erase(name);
  return inputs;
}

absl::StatusOr<std::vector<InputRecord>> FleetDirectory::Recover() const {
  std::vector<InputRecord> missing;
  for (const std::string& name : NamesWith(kPending)) {
    const auto record = ReadRecord(name, kPending);
    if (!record) continue;  // the input has just become whole
    const absl::StatusOr<std::optional<Lock>> lock = TryLock(name, /*waits=*/false);
    if (!lock.ok()) return lock.status();
    if (!lock->has_value()) {
      missing.push_back(*record);
      missing.back().failure = "it is being ingested just now";
      continue;
    }
    if (record->is_removal) {
      if (absl::Status status = Remove(*record); !status.ok()) return status;
      continue;
    }
    if (Find(name)) {
      // The process was killed after the commit.
      RemoveFile(absl::StrCat(kInputs, "/", name, std::string(kPending)));
      continue;
    }
    RemoveFiles(*record);
    if (record->is_summary && !record->replaces.empty()) {
      // The summaries that were to be compacted are still there.
      RemoveFile(absl::StrCat(kInputs, "/", name, std::string(kPending)));
      continue;
    }
    missing.push_back(*record);
    missing.back().failure = "its ingest was ended; ingest it again";
    if (!record->is_summary) continue;
    // Nobody can ingest a summary again, so that it is reported once only.
    missing.back().failure = "its recorder was ended while it wrote that; it is not there";
    RemoveFile(absl::StrCat(kInputs, "/", name, std::string(kPending)));
  }
  for (const std::string& name : NamesWith(kWhole)) {
    const auto record = ReadRecord(name, kWhole);
    if (!record) continue;
    if (absl::Status status = RemoveReplaced(*record); !status.ok()) return status;
  }
  for (const std::string& name : NamesWith(kFailed)) {
    if (auto record = ReadRecord(name, kFailed)) missing.push_back(*std::move(record));
  }
  return missing;
}

absl::Status FleetDirectory::WriteRecord(const InputRecord& record, std::string_view ending) const {
  absl::StatusOr<std::unique_ptr<ByteSink>> sink =
      Create(absl::StrCat(kInputs, "/", record.name, std::string(ending)));
  if (!sink.ok()) return sink.status();
  absl::Status status = (*sink)->Write(DumpedJson(JsonOf(record)) + "\n");
  return status.ok() ? (*sink)->Finish() : status;
}

absl::Status FleetDirectory::Announce(const InputRecord& record) const {
  return WriteRecord(record, kPending);
}

absl::Status FleetDirectory::Commit(const InputRecord& record) const {
  if (absl::Status status = WriteRecord(record, kWhole); !status.ok()) return status;
  RemoveFile(absl::StrCat(kInputs, "/", record.name, std::string(kPending)));
  RemoveFile(absl::StrCat(kInputs, "/", record.name, std::string(kFailed)));
  // A summary has no earlier state, because it is of its own minute: the other records need not be
  // searched.
  if (!record.is_summary) Forget(record.stamp.path);
  return RemoveReplaced(record);
}

absl::Status FleetDirectory::RemoveReplaced(const InputRecord& record) const {
  for (const std::string& name : record.replaces) {
    if (name == record.name) continue;
    const auto older = Find(name);
    // A record can only remove inputs of the same path or the same series, whatever names are in
    // it.
    if (!older || older->is_summary != record.is_summary) continue;
    if (record.is_summary ? SeriesOf(*older) != SeriesOf(record)
                          : older->stamp.path != record.stamp.path) {
      continue;
    }
    if (absl::Status status = Remove(*older); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// Removes the records of earlier states of a file that failed, because they say nothing about its
// present state.
void FleetDirectory::Forget(const std::string& path) const {
  for (const std::string_view ending : {kPending, kFailed}) {
    for (const std::string& name : NamesWith(ending)) {
      const auto record = ReadRecord(name, ending);
      if (!record || record->stamp.path != path || record->is_removal) continue;
      const absl::StatusOr<std::optional<Lock>> lock = TryLock(name, /*waits=*/false);
      if (!lock.ok() || !lock->has_value()) continue;
      if (!Find(name)) {
        RemoveFiles(*record);
      }
      RemoveFile(absl::StrCat(kInputs, "/", name, std::string(ending)));
    }
  }
}

absl::Status FleetDirectory::Fail(const InputRecord& record) const {
  if (absl::Status status = WriteRecord(record, kFailed); !status.ok()) return status;
  RemoveFiles(record);
  RemoveFile(absl::StrCat(kInputs, "/", record.name, std::string(kPending)));
  return absl::OkStatus();
}

void FleetDirectory::Discard(const InputRecord& record) const {
  RemoveFiles(record);
  RemoveFile(absl::StrCat(kInputs, "/", record.name, std::string(kPending)));
}

absl::Status FleetDirectory::Remove(const InputRecord& record) const {
  InputRecord removal = record;
  removal.is_removal = true;
  if (absl::Status status = Announce(removal); !status.ok()) return status;
  RemoveFile(absl::StrCat(kInputs, "/", record.name, std::string(kWhole)));
  RemoveFiles(record);
  RemoveFile(absl::StrCat(kInputs, "/", record.name, std::string(kPending)));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ByteSink>> FleetDirectory::Create(const std::string& path) const {
  absl::StatusOr<OutputDirectory> folder = OutputDirectory::OfDescriptor(folder_.fd(), path_);
  if (!folder.ok()) return folder.status();
  const std::vector<std::string_view> parts = SplitText(path, "/", /*skip_empty=*/true);
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    bool is_made = false;
    absl::StatusOr<OutputDirectory> inner = folder->MakeFolder(std::string(parts[i]), &is_made);
    if (!inner.ok()) return inner.status();
    folder = std::move(inner);
  }
  auto kept = std::make_unique<OutputDirectory>(*std::move(folder));
  absl::StatusOr<std::unique_ptr<ByteSink>> sink = kept->Create(std::string(parts.back()));
  if (!sink.ok()) return sink.status();
  return std::make_unique<SinkInFolder>(std::move(kept), *std::move(sink));
}

std::optional<GuardedFolder> FleetDirectory::FolderOf(const std::string& path,
                                                      std::string* name) const {
  if (!IsInside(path)) return std::nullopt;
  absl::StatusOr<GuardedFolder> self = GuardedFolder::OfDescriptor(folder_.fd(), path_);
  if (!self.ok()) return std::nullopt;
  std::optional<GuardedFolder> folder = *std::move(self);
  name->clear();
  for (const std::string_view part : SplitText(path, "/", /*skip_empty=*/true)) {
    if (folder && !name->empty()) folder = folder->OpenInner(*name);
    *name = std::string(part);
  }
  return folder;
}

void FleetDirectory::RemoveFile(const std::string& path) const {
  // Folders stay, because another process may be about to put a file there.
  std::string name;
  const std::optional<GuardedFolder> folder = FolderOf(path, &name);
  if (folder) folder->Remove(name);
}

void FleetDirectory::RemoveFiles(const InputRecord& record) const {
  for (const std::string& file : record.files) {
    std::string name;
    const std::optional<GuardedFolder> folder = FolderOf(file, &name);
    if (!folder) continue;
    folder->Remove(name);
    if (record.writer > 0) RemoveUnfinished(*folder, record.writer);
  }
}

}  // namespace proftrace
