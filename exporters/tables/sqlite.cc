#include "exporters/tables/sqlite.h"

#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <concepts>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "exporters/sinks/escape.h"
#include "exporters/sinks/text_writer.h"
#include "exporters/tables/tables.h"
#include "exporters/text/summary_json.h"
#include "userspace/base/dumped_json.h"
#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

constexpr char kVfsName[] = "proftrace";
constexpr char kFile[] = "database";
constexpr size_t kCopyBytes = size_t{1} << 20;
// The statements before the tables. `PRAGMA user_version` grows when a column is renamed or
// removed.
constexpr std::string_view kBegin =
    "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE; "
    "PRAGMA user_version=1; BEGIN; CREATE TABLE summary (key TEXT PRIMARY KEY, value TEXT);";
constexpr std::string_view kEnd =
    "CREATE INDEX events_by_parent ON events (parent_id);"
    "CREATE INDEX events_by_name ON events (name);"
    "CREATE INDEX events_by_thread ON events (tid, start_ns); COMMIT;";

// Makes SQLite use names as they are. By default it resolves /proc/self/fd/N to a path, and would
// look that path up again.
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

  // `scratch` must outlive this. SQLite accepts only names. So the file is made in a new directory
  // of our own, which SQLite gets by its descriptor, and the names of both are removed at once:
  // nobody can put another file there, and nothing is left however the program ends.
  absl::Status Open(const GuardedFolder& scratch) {
    place_ = scratch.path();
    std::string name;
    const absl::StatusOr<GuardedFolder> folder = MakeFolder(scratch, &name);
    if (!folder.ok()) {
      return CannotWrite(
          std::string_view(folder.status().message().data(), folder.status().message().size()));
    }
    RegisterVfs();
    // Sorting for an index may need a file of its own, which has a name for a moment.
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

// Makes a table, and inserts each row that is added.
template <typename Row>
class SqliteTable {
 public:
  SqliteTable(Database* database, std::string_view name) : database_(database) {
    std::string columns;
    std::string places;
    for (const TypedColumn& column : ColumnsOf<Row>()) {
      columns += (columns.empty() ? "" : ", ") + std::string(column.name) + " " +
                 std::string(column.sql_type) + (column.name == "id" ? " PRIMARY KEY" : "");
      places += places.empty() ? "?" : ",?";
    }
    const std::string table(name);
    status_ = database->Run("CREATE TABLE " + table + " (" + columns + ")");
    if (!status_.ok()) return;
    insert_ = database->Prepare("INSERT INTO " + table + " VALUES (" + places + ")");
    if (insert_ == nullptr) status_ = database->Failed();
  }
  ~SqliteTable() { sqlite3_finalize(insert_); }
  SqliteTable(const SqliteTable&) = delete;
  SqliteTable& operator=(const SqliteTable&) = delete;

  // Adds a row. Returns false after an error.
  bool Add(const Row& row) {
    if (!status_.ok()) return false;
    int place = 0;
    ForEachCell(row, [&](const Column&, const auto& cell) {
      ++place;
      if constexpr (requires { cell.has_value(); }) {
        if (cell.has_value()) {
          Bind(place, *cell);
        } else {
          sqlite3_bind_null(insert_, place);
        }
      } else {
        Bind(place, cell);
      }
    });
    const int result = sqlite3_step(insert_);
    sqlite3_reset(insert_);
    if (result != SQLITE_DONE) status_ = database_->Failed();
    return status_.ok();
  }

  const absl::Status& status() const { return status_; }

 private:
  // Binds a cell. A text is not copied, because the row keeps it. The column's type turns the text
  // of a number into a number.
  template <typename Cell>
  void Bind(int place, const Cell& cell) {
    if constexpr (std::integral<Cell>) {
      sqlite3_bind_int64(insert_, place, static_cast<int64_t>(cell));
    } else if constexpr (std::same_as<Cell, CellText>) {
      BindText(place, cell.text, SQLITE_STATIC);
    } else if constexpr (std::same_as<Cell, PathPieces>) {
      path_.clear();
      for (size_t i = 0; i < cell.count; ++i) path_ += cell.pieces[i];
      BindText(place, path_, SQLITE_STATIC);
    } else if constexpr (CellTypeOf<Cell>() == CellType::kReal) {
      char text[kMaxDecimalBytes];
      BindText(place, {text, static_cast<size_t>(PutReal(text, cell) - text)}, SQLITE_TRANSIENT);
    } else {
      BindText(place, ToValidUtf8(cell), SQLITE_TRANSIENT);
    }
  }

  static char* PutReal(char* at, const NsAsUs& time) { return PutMicroseconds(at, time.ns); }
  static char* PutReal(char* at, const Decimal& number) {
    return PutDecimal(at, number.value, number.decimals);
  }

  void BindText(int place, std::string_view text, sqlite3_destructor_type keeping) {
    if (text.empty()) {
      sqlite3_bind_null(insert_, place);
    } else {
      sqlite3_bind_text(insert_, place, text.data(), static_cast<int>(text.size()), keeping);
    }
  }

  Database* database_;
  sqlite3_stmt* insert_ = nullptr;
  std::string path_;
  absl::Status status_;
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
    const std::string text = DumpedJson(value);
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
  ForEachTable(timeline, aggregates, CellForm::Plain(), [&]<typename Row>(const Table<Row>& table) {
    if (!status.ok()) return;
    SqliteTable<Row> to(&database, table.name);
    table.rows([&to](const Row& row) { return to.Add(row); });
    status = to.status();
  });
  if (status.ok()) status = AddSummary(timeline, aggregates, &database);
  if (status.ok()) status = database.Run(kEnd);
  return status.ok() ? database.CopyTo(sink) : status;
}

}  // namespace proftrace
