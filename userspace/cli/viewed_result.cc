#include "userspace/cli/viewed_result.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "exporters/formats.h"
#include "exporters/sinks/gzip_sink.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/guarded_folder.h"
#include "userspace/base/tar.h"
#include "userspace/base/text.h"
#include "userspace/cli/confinements.h"
#include "userspace/cli/results.h"
#include "userspace/cli/say.h"
#include "userspace/sandbox/confined.h"
#include "userspace/wire/capture_format.h"

namespace proftrace {
namespace {

constexpr char kCaptureName[] = "capture.ptrec";
constexpr size_t kMostBlankBytes = 64;  // the most blanks before the first brace of a trace

// A file of a result that is shown, with the format that makes it.
struct Shown {
  const char* format;
  std::optional<ViewedFile> ViewedResult::*place;
};
constexpr std::array<Shown, 3> kShown = {{{"report", &ViewedResult::report},
                                          {"chrome", &ViewedResult::trace},
                                          {"speedscope", &ViewedResult::speedscope}}};

std::string FileNameOf(const Shown& shown) {
  const absl::StatusOr<const Format*> format = FindFormat(shown.format);
  return format.ok() ? std::string((*format)->file_name) : "";
}

absl::Status CannotShow(const std::string& path, const std::string& why) {
  return Fail(ExitCode::kInputDamaged,
              path + ": " + why +
                  "; give a result directory, a .ptrec file, an archive of a result (.tar) or a "
                  "trace (.json, .json.gz, .pftrace)");
}

std::optional<ViewedFile> WholeFile(UniqueFd fd, const std::string& name) {
  struct stat facts {};
  if (!fd.valid() || fstat(fd.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return std::nullopt;
  return ViewedFile{std::make_shared<const UniqueFd>(std::move(fd)), 0,
                    static_cast<uint64_t>(facts.st_size), name};
}

UniqueFd OpenIn(int folder, const std::string& name) {
  return UniqueFd(openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

absl::Status OpenDirectory(const std::string& path, const UniqueFd& folder, ViewedResult* result) {
  for (const Shown& shown : kShown) {
    const std::string name = FileNameOf(shown);
    result->*shown.place = WholeFile(OpenIn(folder.get(), name), name);
  }
  struct stat facts {};
  result->has_capture = fstatat(folder.get(), kCaptureName, &facts, AT_SYMLINK_NOFOLLOW) == 0 &&
                        S_ISREG(facts.st_mode);
  if (result->has_capture || result->report.has_value() || result->trace.has_value()) {
    return absl::OkStatus();
  }
  for (const char* part : {"cycle_0", "dump_0"}) {
    if (fstatat(folder.get(), part, &facts, AT_SYMLINK_NOFOLLOW) != 0) continue;
    return Fail(ExitCode::kInputDamaged,
                path + " holds several results: give one of them, " + path + "/" + part + " say");
  }
  return CannotShow(path, "there is no recording in this directory");
}

void FindInArchive(const ViewedFile& archive, ViewedResult* result) {
  std::array<std::byte, kTarBlockBytes> block{};
  const auto read = [&](uint64_t offset) -> std::optional<std::span<const std::byte>> {
    const ssize_t got =
        pread(archive.fd->get(), block.data(), block.size(), static_cast<off_t>(offset));
    if (got != static_cast<ssize_t>(block.size())) return std::nullopt;
    return std::span<const std::byte>(block);
  };
  const auto find = [&](const std::string& name) -> std::optional<ViewedFile> {
    const TarSearch search = FindInTar(name, read);
    if (!search.first.has_value()) return std::nullopt;
    const auto [offset, bytes] = *search.first;
    // An archive that is cut off has fewer bytes than its head says.
    if (offset > archive.bytes || bytes > archive.bytes - offset) return std::nullopt;
    return ViewedFile{archive.fd, offset, bytes, name};
  };
  for (const Shown& shown : kShown) result->*shown.place = find(FileNameOf(shown));
  result->has_capture = FindInTar(kCaptureName, read).first.has_value();
}

// Returns whether a file of JSON can be a chrome trace. An object has the key traceEvents, which is
// looked for where that is quick; a list is one of events.
bool MayBeTrace(const ViewedFile& file, char first) {
  constexpr uint64_t kMostToSearch = 1 << 20;
  if (first == '[' || file.bytes > kMostToSearch) return true;
  std::string text(file.bytes, '\0');
  const ssize_t got = pread(file.fd->get(), text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return Contains(text, "\"traceEvents\"");
}

// Returns the name by which a file is served as a trace; empty where the file does not look like a
// trace. `bytes`: its first ones.
std::string TraceNameOf(const ViewedFile& file, std::string_view bytes, const std::string& path) {
  if (bytes.starts_with("\x1f\x8b")) {
    return path.ends_with(".json.gz") ? "trace.json.gz" : "trace.pftrace.gz";
  }
  const size_t first = bytes.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && (bytes[first] == '{' || bytes[first] == '[')) {
    return MayBeTrace(file, bytes[first]) ? "trace.json" : "";
  }
  // Perfetto's own format begins with the tag of field 1, a packet.
  return bytes.starts_with('\x0a') && path.ends_with(".pftrace") ? "trace.pftrace" : "";
}

absl::Status OpenFileOf(const std::string& path, UniqueFd fd, ViewedResult* result) {
  std::optional<ViewedFile> file = WholeFile(std::move(fd), path);
  if (!file.has_value()) return CannotShow(path, "this is no file");
  std::array<std::byte, kTarBlockBytes> start{};
  const ssize_t got = pread(file->fd->get(), start.data(), start.size(), 0);
  const std::string_view bytes(reinterpret_cast<const char*>(start.data()),
                               got > 0 ? static_cast<size_t>(got) : 0);
  if (bytes.starts_with(std::string_view(kCaptureMagic, sizeof(kCaptureMagic)))) {
    result->has_capture = true;
    return absl::OkStatus();
  }
  if (bytes.size() == start.size() && IsTar(start)) {
    FindInArchive(*file, result);
    if (result->has_capture || result->report.has_value() || result->trace.has_value()) {
      return absl::OkStatus();
    }
    return CannotShow(path, "there is no recording in this archive");
  }
  file->name = TraceNameOf(*file, bytes.substr(0, kMostBlankBytes), path);
  if (file->name.empty()) return CannotShow(path, "this is no recording and no trace");
  result->trace = *std::move(file);
  return absl::OkStatus();
}

// A sink for a descriptor that stays open afterwards.
class OpenFileSink final : public ByteSink {
 public:
  explicit OpenFileSink(int fd) : fd_(fd) {}
  absl::Status Write(std::string_view bytes) override {
    if (WriteFully(fd_, bytes)) return absl::OkStatus();
    return Fail(ExitCode::kOutputFailed, "cannot write a temporary file: " + ErrnoText(errno) +
                                             "; choose another place with TMPDIR");
  }
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  int fd_;
};

struct Made {
  const Format* format;
  std::optional<ViewedFile> ViewedResult::*place;
  std::shared_ptr<const UniqueFd> fd;
};

absl::Status WriteMade(const std::string& path, bool salvage, const std::vector<Made>& all) {
  const absl::StatusOr<Results> results = LoadResults(path, salvage, AggregateOptions());
  if (!results.ok()) return results.status();
  const TableOptions table;
  const ExportInput input{*results->timeline, results->aggregates, table};
  for (const Made& made : all) {
    std::unique_ptr<ByteSink> sink = std::make_unique<OpenFileSink>(made.fd->get());
    if (made.format->file_name.ends_with(".gz")) sink = NewGzipSink(std::move(sink));
    if (absl::Status status = made.format->write(input, *sink); !status.ok()) return status;
    if (absl::Status status = sink->Finish(); !status.ok()) return status;
  }
  if (!results->damage.empty()) {
    Say("%s is damaged: %s; what is whole is shown", path.c_str(), results->damage.c_str());
  }
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> NewTemporaryFile() {
  const char* named = std::getenv("TMPDIR");
  const std::string place = named != nullptr && *named != '\0' ? named : "/tmp";
  const absl::StatusOr<GuardedFolder> folder = GuardedFolder::Open(place);
  if (folder.ok()) {
    UniqueFd fd = folder->CreateTemporary();
    if (fd.valid()) return fd;
  }
  return Fail(ExitCode::kOutputFailed,
              "cannot make a temporary file in " + place + ": " +
                  (folder.ok() ? ErrnoText(errno) : std::string(folder.status().message())) +
                  "; choose another place with TMPDIR");
}

}  // namespace

absl::StatusOr<ViewedResult> OpenViewedResult(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat facts {};
  if (!fd.valid() || fstat(fd.get(), &facts) != 0) return CannotShow(path, ErrnoText(errno));
  ViewedResult result;
  result.owner_uid = facts.st_uid;
  result.owner_gid = facts.st_gid;
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(path, error).lexically_normal();
  result.title = (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  absl::Status status = S_ISDIR(facts.st_mode) ? OpenDirectory(path, fd, &result)
                                               : OpenFileOf(path, std::move(fd), &result);
  if (!status.ok()) return status;
  return result;
}

absl::Status MakeMissing(const std::string& path, bool salvage, ViewedResult* result) {
  if (!result->has_capture) return absl::OkStatus();
  std::vector<Made> all;
  std::string names;
  for (const Shown& shown : kShown) {
    if ((result->*shown.place).has_value()) continue;
    const absl::StatusOr<const Format*> format = FindFormat(shown.format);
    if (!format.ok()) return format.status();
    absl::StatusOr<UniqueFd> fd = NewTemporaryFile();
    if (!fd.ok()) return fd.status();
    names += (names.empty() ? "" : ", ") + std::string((*format)->file_name);
    all.push_back({*format, shown.place, std::make_shared<const UniqueFd>(*std::move(fd))});
  }
  if (all.empty()) return absl::OkStatus();
  Say("making %s of %s", names.c_str(), path.c_str());
  absl::Status status =
      RunConfined(OfReport({path}), [&] { return WriteMade(path, salvage, all); });
  if (!status.ok()) return status;
  for (const Made& made : all) {
    struct stat facts {};
    if (fstat(made.fd->get(), &facts) != 0) {
      return Fail(ExitCode::kOutputFailed, "a temporary file is gone: " + ErrnoText(errno));
    }
    result->*made.place = ViewedFile{made.fd, 0, static_cast<uint64_t>(facts.st_size),
                                     std::string(made.format->file_name)};
  }
  return absl::OkStatus();
}

}  // namespace proftrace
