#include "exporters/tables/sqlite.h"

#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "exporters/sinks/csv_reader.h"
#include "exporters/tables/data_waits_csv.h"
#include "exporters/tables/events_csv.h"
#include "exporters/tables/gpu_idle_csv.h"
#include "exporters/tables/key_averages_csv.h"
#include "exporters/tables/modules_csv.h"
#include "exporters/tables/samples_csv.h"
#include "exporters/text/summary_json.h"
#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

constexpr char kVfsName[] = "proftrace";
constexpr char kFile[] = "database";
constexpr size_t kCopyBytes = size_t{1} << 20;
// `PRAGMA user_version`: grows when a column is renamed or removed.
constexpr std::string_view kBegin =
    "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE; "
    "PRAGMA user_version=1; BEGIN; CREATE TABLE summary (key TEXT PRIMARY KEY, value TEXT);";
constexpr std::string_view kEnd =
    "CREATE INDEX events_by_parent ON events (parent_id);"
    "CREATE INDEX events_by_name ON events (name);"
    "CREATE INDEX events_by_thread ON events (tid, start_ns); COMMIT;";

// What a column of that name holds, in all of the files.
std::string_view TypeOfColumn(std::string_view name) {
  constexpr std::array<std::string_view, 25> kIntegers = {
      "id",         "parent_id",    "depth",       "pid",         "tid",
      "fwd_tid",    "device_index", "stream",      "sequence_nr", "correlation_id",
      "is_async",   "step",         "flops",       "count",       "node_id",
      "calls",      "operators",    "samples",     "event_id",    "device",
      "worker_pid", "waker_tid",    "next_stream", "external_id", "self_syscalls"};
  if (std::find(kIntegers.begin(), kIntegers.end(), name) != kIntegers.end()) return "INTEGER";
  for (const std::string_view end : {"_ns", "_bytes", "_faults"}) {
    if (name.ends_with(end)) return "INTEGER";
  }
  return name.ends_with("_us") || name.ends_with("percent") ? "REAL" : "TEXT";
}

// SQLite's own way to files, but that names are taken as they are: by default it reads what
// /proc/self/fd/N leads to, and would look that path up again.
int CopyName(sqlite3_vfs*, const char* name, int bytes, char* full) {
  if (std::strlen(name) >= static_cast<size_t>(bytes)) return SQLITE_CANTOPEN;
  std::strcpy(full, name);
  return SQLITE_OK;
}

void RegisterVfs() {
  static sqlite3_vfs vfs = [] {
    sqlite3_initialize();
    sqlite3_vfs copy = *sqlite3_vfs_find(nullptr);
    copy.zName = kVfsName;
    copy.xFullPathname = CopyName;
    return copy;
  }();
  sqlite3_vfs_register(&vfs, /*makeDflt=*/0);
}

absl::StatusOr<GuardedFolder> MakeFolder(const GuardedFolder& scratch, std::string* name) {
  uint64_t random = 0;
  (void)getrandom(&random, sizeof(random), GRND_NONBLOCK);
  *name = absl::StrCat(".proftrace-", absl::Hex(random, absl::kZeroPad16));
  bool is_made = false;
  absl::StatusOr<GuardedFolder> folder = scratch.Make(*name, &is_made);
  if (folder.ok() && !is_made) return Fail(ExitCode::kOutputFailed, ErrnoText(EEXIST));
  return folder;
}

class Database {
 public:
  Database() = default;
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  ~Database() {
    if (database_ != nullptr) sqlite3_close_v2(database_);
    sqlite3_free(std::exchange(sqlite3_temp_directory, nullptr));
  }

  // `scratch` outlives this. SQLite takes nothing but names. So the file is made in a new directory
  // that is ours alone, which SQLite is told by its descriptor, and both names are taken away at
  // once: nobody can put another file there, and nothing is left however we end.
  absl::Status Open(const GuardedFolder& scratch) {
    place_ = scratch.path();
    std::string name;
    const absl::StatusOr<GuardedFolder> folder = MakeFolder(scratch, &name);
    if (!folder.ok()) {
      return CannotWrite(
          std::string_view(folder.status().message().data(), folder.status().message().size()));
    }
    RegisterVfs();
    // What it sorts for an index may take a file of its own, which has a name for a moment.
    sqlite3_temp_directory = sqlite3_mprintf("%s", scratch.DescriptorPath().c_str());
    file_ = folder->Create(kFile, O_RDWR);
    const int error = errno;
    const std::string path = folder->DescriptorPath() + "/" + kFile;
    const int result =
        file_.valid() ? sqlite3_open_v2(path.c_str(), &database_, SQLITE_OPEN_READWRITE, kVfsName)
                      : SQLITE_CANTOPEN;
    folder->Remove(kFile);
    scratch.RemoveFolder(name);
    if (!file_.valid()) return CannotWrite(error);
    return result == SQLITE_OK ? Run(kBegin) : Failed();
  }

  absl::Status Run(std::string_view statements) {
    const std::string text(statements);
    return sqlite3_exec(database_, text.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK
               ? absl::OkStatus()
               : Failed();
  }

  sqlite3_stmt* Prepare(const std::string& statement) {
    sqlite3_stmt* prepared = nullptr;
    sqlite3_prepare_v2(database_, statement.c_str(), -1, &prepared, nullptr);
    return prepared;
  }

  absl::Status Failed() const {
    const int error = sqlite3_system_errno(database_);
    if (sqlite3_errcode(database_) == SQLITE_FULL) return CannotWrite(ENOSPC);
    if (error != 0) return CannotWrite(error);
    return Fail(ExitCode::kOutputFailed,
                "cannot write the database in " + place_ + ": " + sqlite3_errmsg(database_));
  }

  absl::Status CopyTo(ByteSink& sink) {
    sqlite3_close_v2(std::exchange(database_, nullptr));
    const auto buffer = std::make_unique<char[]>(kCopyBytes);
    for (off_t at = 0;;) {
      const ssize_t got = pread(file_.get(), buffer.get(), kCopyBytes, at);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return CannotWrite(errno);
      if (got == 0) return absl::OkStatus();
      absl::Status status = sink.Write({buffer.get(), static_cast<size_t>(got)});
      if (!status.ok()) return status;
      at += got;
    }
  }

 private:
  absl::Status CannotWrite(int error) const { return CannotWrite(ErrnoText(error)); }
  absl::Status CannotWrite(std::string_view why) const {
    const std::string text = "cannot write the database in " + place_ + ": ";
    return Fail(
        ExitCode::kOutputFailed,
        text + std::string(why) + "; free some space there, or choose another place with -o");
  }

  std::string place_;
  UniqueFd file_;
  sqlite3* database_ = nullptr;
};

// Makes the table from the header, and a row of each line.
class TableWriter : public CsvReader {
 public:
  TableWriter(Database* database, std::string name) : database_(database), name_(std::move(name)) {}
  ~TableWriter() override { sqlite3_finalize(insert_); }

 protected:
  absl::Status TakeRow(const std::vector<CsvCell>& cells) override {
    if (insert_ == nullptr) return MakeTable(cells);
    for (size_t i = 0; i < cells.size(); ++i) Bind(static_cast<int>(i) + 1, cells[i]);
    const int result = sqlite3_step(insert_);
    sqlite3_reset(insert_);
    return result == SQLITE_DONE ? absl::OkStatus() : database_->Failed();
  }

 private:
  absl::Status MakeTable(const std::vector<CsvCell>& header) {
    std::string columns;
    std::string places;
    for (const CsvCell& cell : header) {
      const std::string_view type = TypeOfColumn(cell.text);
      is_integer_.push_back(type == "INTEGER");
      columns += (columns.empty() ? "" : ", ") + std::string(cell.text) + " " + std::string(type) +
                 (cell.text == "id" ? " PRIMARY KEY" : "");
      places += places.empty() ? "?" : ",?";
    }
    absl::Status status = database_->Run("CREATE TABLE " + name_ + " (" + columns + ")");
    if (!status.ok()) return status;
    insert_ = database_->Prepare("INSERT INTO " + name_ + " VALUES (" + places + ")");
    return insert_ != nullptr ? absl::OkStatus() : database_->Failed();
  }

  void Bind(int place, const CsvCell& cell) {
    if (cell.is_empty) {
      sqlite3_bind_null(insert_, place);
      return;
    }
    int64_t number = 0;
    const char* end = cell.text.data() + cell.text.size();
    if (is_integer_[static_cast<size_t>(place) - 1] &&
        std::from_chars(cell.text.data(), end, number).ptr == end) {
      sqlite3_bind_int64(insert_, place, number);
      return;
    }
    // A column of numbers makes one of it.
    sqlite3_bind_text(insert_, place, cell.text.data(), static_cast<int>(cell.text.size()),
                      SQLITE_STATIC);
  }

  Database* database_;
  std::string name_;
  std::vector<bool> is_integer_;
  sqlite3_stmt* insert_ = nullptr;
};

absl::Status AddSummary(const Timeline& timeline, const Aggregates& aggregates,
                        Database* database) {
  StringSink json;
  if (absl::Status status = ExportSummary(timeline, aggregates, json); !status.ok()) return status;
  sqlite3_stmt* insert = database->Prepare("INSERT INTO summary VALUES (?, ?)");
  if (insert == nullptr) return database->Failed();
  absl::Status status;
  const auto summary = nlohmann::ordered_json::parse(json.text());
  for (const auto& [key, value] : summary.items()) {
    const std::string text = value.dump();
    sqlite3_bind_text(insert, 1, key.data(), static_cast<int>(key.size()), SQLITE_STATIC);
    sqlite3_bind_text(insert, 2, text.data(), static_cast<int>(text.size()), SQLITE_STATIC);
    if (sqlite3_step(insert) != SQLITE_DONE) status.Update(database->Failed());
    sqlite3_reset(insert);
  }
  sqlite3_finalize(insert);
  return status;
}

}  // namespace

absl::Status ExportSqlite(const Timeline& timeline, const Aggregates& aggregates,
                          const GuardedFolder& scratch, ByteSink& sink) {
  Database database;
  if (absl::Status status = database.Open(scratch); !status.ok()) return status;
  absl::Status status;
  const auto add = [&](const char* name, const auto& write) {
    if (!status.ok()) return;
    TableWriter table(&database, name);
    status = write(table);
  };
  add("events", [&](ByteSink& table) {
    return ExportEventsCsv(timeline, aggregates.steps, aggregates.step_rows, table,
                           CsvText::kExact);
  });
  add("key_averages", [&](ByteSink& table) {
    return ExportKeyAveragesCsv(aggregates.key_averages, table, CsvText::kExact);
  });
  if (!timeline.python_modules().empty() && aggregates.python_rows.status().ok()) {
    add("modules", [&](ByteSink& table) {
      return ExportModulesCsv(timeline, aggregates.modules, table, CsvText::kExact);
    });
  }
  if (!timeline.samples().empty()) {
    add("samples", [&](ByteSink& table) {
      return ExportSamplesCsv(timeline, aggregates.step_rows, table, CsvText::kExact);
    });
  }
  if (timeline.has_device_records()) {
    add("gpu_idle", [&](ByteSink& table) {
      return ExportGpuIdleCsv(timeline, aggregates.device_idle, table, CsvText::kExact);
    });
  }
  if (timeline.has_sched()) {
    add("data_waits", [&](ByteSink& table) {
      return ExportDataWaitsCsv(timeline, aggregates.data_waits, table, CsvText::kExact);
    });
  }
  if (status.ok()) status = AddSummary(timeline, aggregates, &database);
  if (status.ok()) status = database.Run(kEnd);
  return status.ok() ? database.CopyTo(sink) : status;
}

}  // namespace proftrace
