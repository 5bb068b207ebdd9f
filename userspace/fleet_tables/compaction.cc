#include "userspace/fleet_tables/compaction.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/shown_text.h"
#include "userspace/base/stable_hash.h"
#include "userspace/base/text.h"
#include "userspace/fleet_tables/input_facts.h"

namespace proftrace {
namespace {

constexpr int64_t kHourS = 3600;
constexpr std::string_view kFacts = "facts";
constexpr size_t kSeriesDigits = 16;
// The most windows that are joined at once, because the engine gets all paths in one command line.
constexpr size_t kMostWindows = 256;

// Returns the second with which a summary's window ends; nullopt for a compacted summary, and for
// any other input.
std::optional<int64_t> EndOf(const InputRecord& record) {
  if (!record.is_summary || record.parts.size() != 1) return std::nullopt;
  const std::string& part = record.parts.front();
  // The text becomes a part of paths, so that only these characters are allowed.
  if (part.find_first_not_of("0123456789abcdef") != kSeriesDigits || part[kSeriesDigits] != '-') {
    return std::nullopt;
  }
  return ParseNumber<int64_t>(std::string_view(part).substr(kSeriesDigits + 1));
}

std::string_view TableOf(std::string_view file) { return file.substr(0, file.find('/')); }

// Returns the folder of a part's tables behind the table's name: "of_job=J/…/of_rank=R".
std::string FolderOf(const InputRecord& record) {
  for (const std::string_view file : record.files) {
    const size_t begin = file.find('/');
    const size_t end = file.rfind('/');
    if (TableOf(file) != kFacts && end != begin) {
      return std::string(file.substr(begin + 1, end - begin - 1));
    }
  }
  return "";
}

std::vector<TableFiles> TablesOf(const FleetDirectory& directory, const SummaryHour& hour) {
  std::map<std::string, TableFiles> tables;
  for (const InputRecord& window : hour.windows) {
    for (const std::string& file : window.files) {
      const std::string table(TableOf(file));
      if (table == kFacts) continue;
      tables[table].table = table;
      tables[table].paths.push_back(directory.path() + "/" + file);
    }
  }
  std::vector<TableFiles> list;
  for (auto& [name, files] : tables) list.push_back(std::move(files));
  return list;
}

absl::Status CopyInto(const std::string& path, ByteSink& sink) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes(size_t{1} << 16);
  while (file) {
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    absl::Status status = sink.Write({bytes.data(), static_cast<size_t>(file.gcount())});
    if (!status.ok()) return status;
  }
  if (file.eof()) return absl::OkStatus();
  return Fail(ExitCode::kOutputFailed, ShownText(path) + " cannot be read again");
}

class HourCompaction {
 public:
  HourCompaction(const FleetDirectory& directory, const SummaryHour& hour)
      : directory_(directory), hour_(hour), series_(SeriesOf(hour.windows.front())) {
    const int64_t first_s = *EndOf(hour.windows.front());
    const int64_t last_s = *EndOf(hour.windows.back());
    part_ = absl::StrCat(series_, "-", first_s, "-", last_s);
    record_.name = StableHash().Add(series_).Add(first_s).Add(last_s).Hex();
    record_.is_summary = true;
    record_.writer = getpid();
    record_.parts = {part_};
    const std::string& path = hour.windows.front().stamp.path;
    record_.stamp.path =
        absl::StrCat(path.substr(0, path.rfind(", until ")), ", until ", first_s, " to ", last_s);
    for (const InputRecord& window : hour.windows) {
      record_.stamp.bytes += window.stamp.bytes;
      record_.replaces.push_back(window.name);
    }
  }

  absl::Status Run(const FileJoiner& join) {
    const auto lock = directory_.TryLock(record_.name, /*waits=*/false);
    if (!lock.ok()) return lock.status();
    if (!lock->has_value() || HasChanged()) return absl::OkStatus();
    const std::vector<TableFiles> tables = TablesOf(directory_, hour_);
    const absl::StatusOr<std::vector<std::string>> joined = join(tables);
    if (!joined.ok()) return joined.status();
    // Waits until no reader has the directory open, because a reader would find half of the change.
    const auto readers = directory_.TryLock(FleetDirectory::kAlignedLock, /*waits=*/true);
    if (!readers.ok()) return readers.status();
    if (HasChanged()) return absl::OkStatus();
    absl::Status status = Prepare(tables, *joined);
    if (status.ok()) status = directory_.Announce(record_);
    for (const auto& sink : sinks_) {
      if (status.ok()) status = sink->Finish();
    }
    if (!status.ok()) {
      directory_.Discard(record_);
      return status;
    }
    return directory_.Commit(record_);
  }

 private:
  // Returns whether a window has changed since it was read.
  bool HasChanged() const {
    return std::any_of(hour_.windows.begin(), hour_.windows.end(), [&](const InputRecord& window) {
      const auto now = directory_.Find(window.name);
      return !now || now->files != window.files;
    });
  }

  // Writes the files without giving them their names.
  absl::Status Prepare(const std::vector<TableFiles>& tables,
                       const std::vector<std::string>& joined) {
    const std::string folder = FolderOf(hour_.windows.front());
    for (size_t i = 0; i < tables.size(); ++i) {
      auto sink = Create(absl::StrCat(tables[i].table, "/", folder, "/", part_, ".parquet"));
      if (!sink.ok()) return sink.status();
      if (absl::Status status = CopyInto(joined[i], **sink); !status.ok()) return status;
    }
    auto sink = Create(directory_.FactsPath(part_));
    if (!sink.ok()) return sink.status();
    for (const InputRecord& window : hour_.windows) {
      const auto text =
          ReadFactsText(directory_.path() + "/" + directory_.FactsPath(window.parts.front()));
      if (!text.ok()) return text.status();
      if (absl::Status status = (*sink)->Write(*text); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<ByteSink*> Create(const std::string& file) {
    auto sink = directory_.Create(file);
    if (!sink.ok()) return sink.status();
    record_.files.push_back(file);
    sinks_.push_back(*std::move(sink));
    return sinks_.back().get();
  }

  const FleetDirectory& directory_;
  const SummaryHour& hour_;
  const std::string series_;
  std::string part_;
  InputRecord record_;
  std::vector<std::unique_ptr<ByteSink>> sinks_;
};

}  // namespace

absl::StatusOr<std::vector<SummaryHour>> HoursToCompact(const FleetDirectory& directory,
                                                        int64_t before_s) {
  const auto inputs = directory.Inputs();
  if (!inputs.ok()) return inputs.status();
  std::map<std::tuple<std::string, std::string, int64_t>, SummaryHour> hours;
  for (const auto& [name, record] : *inputs) {
    const auto end_s = EndOf(record);
    // A window that ends exactly with the hour belongs to that hour.
    const int64_t hour = (end_s.value_or(0) - 1) / kHourS;
    if (!end_s || (hour + 1) * kHourS > before_s) continue;
    hours[{SeriesOf(record), FolderOf(record), hour}].windows.push_back(record);
  }
  std::vector<SummaryHour> several;
  for (auto& [key, hour] : hours) {
    auto& windows = hour.windows;
    std::sort(windows.begin(), windows.end(),
              [](const auto& a, const auto& b) { return EndOf(a) < EndOf(b); });
    for (size_t begin = 0; begin + 1 < windows.size(); begin += kMostWindows) {
      const auto first = windows.begin() + static_cast<std::ptrdiff_t>(begin);
      const auto count = std::min(kMostWindows, windows.size() - begin);
      several.push_back({{first, first + static_cast<std::ptrdiff_t>(count)}});
    }
  }
  return several;
}

absl::Status CompactHour(const FleetDirectory& directory, const SummaryHour& hour,
                         const FileJoiner& join) {
  return HourCompaction(directory, hour).Run(join);
}

}  // namespace proftrace
