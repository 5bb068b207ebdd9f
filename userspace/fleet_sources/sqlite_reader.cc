#include "userspace/fleet_sources/sqlite_reader.h"

#include <utility>

#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

// The largest text or row in bytes. SQLite itself refuses larger ones.
constexpr int kLongestCell = 16 << 20;

// Returns the path for use in a URI: characters with a meaning in URIs are encoded.
std::string UriPath(const std::string& path) {
  std::string uri;
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#') {
      constexpr std::string_view kDigits = "0123456789ABCDEF";
      uri += '%';
      uri += kDigits[static_cast<unsigned char>(c) >> 4];
      uri += kDigits[c & 15];
    } else {
      uri += c;
    }
  }
  return uri;
}

}  // namespace

std::optional<int64_t> SqliteRow::Integer(int column) const {
  if (sqlite3_column_type(statement_, column) != SQLITE_INTEGER) return std::nullopt;
  return sqlite3_column_int64(statement_, column);
}

std::string_view SqliteRow::Text(int column) const {
  const unsigned char* text = sqlite3_column_text(statement_, column);
  if (text == nullptr) return {};
  return {reinterpret_cast<const char*>(text),
          static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
}

SqliteReader::SqliteReader(std::string path, std::unique_ptr<sqlite3, CloseDatabase> database)
    : path_(std::move(path)), database_(std::move(database)) {}

absl::StatusOr<SqliteReader> SqliteReader::Open(const std::string& path) {
  sqlite3* raw = nullptr;
  // With "immutable" SQLite makes no lock and no journal beside the file, whose folder may be
  // read-only.
  const std::string uri = "file:" + UriPath(path) + "?immutable=1";
  const int result = sqlite3_open_v2(
      uri.c_str(), &raw, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, nullptr);
  SqliteReader reader(path, std::unique_ptr<sqlite3, CloseDatabase>(raw));
  if (result != SQLITE_OK) return reader.Damaged();
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_limit(raw, SQLITE_LIMIT_LENGTH, kLongestCell);
  absl::Status status = reader.ForEachRow("SELECT 1 FROM sqlite_master LIMIT 1",
                                          [](const SqliteRow&) { return absl::OkStatus(); });
  if (!status.ok()) return status;
  return reader;
}

absl::StatusOr<SqliteReader::Statement> SqliteReader::Prepare(const std::string& query) const {
  sqlite3_stmt* raw = nullptr;
  const int result = sqlite3_prepare_v2(database_.get(), query.c_str(),
                                        static_cast<int>(query.size()), &raw, nullptr);
  if (result != SQLITE_OK) return Damaged();
  return Statement(raw);
}

absl::Status SqliteReader::Damaged() const {
  return Fail(ExitCode::kInputDamaged, path_ + " cannot be read as a database of SQLite: " +
                                           sqlite3_errmsg(database_.get()) + "; export it again");
}

std::set<std::string> SqliteReader::ColumnsOf(const std::string& table) const {
  std::set<std::string> columns;
  bool is_table = false;
  const absl::Status found =
      ForEachRow("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '" + table +
                     "' AND sql LIKE 'CREATE TABLE%'",
                 [&is_table](const SqliteRow&) {
                   is_table = true;
                   return absl::OkStatus();
                 });
  if (!found.ok() || !is_table) return columns;
  const absl::Status listed =
      ForEachRow("PRAGMA table_info('" + table + "')", [&columns](const SqliteRow& row) {
        columns.emplace(row.Text(1));
        return absl::OkStatus();
      });
  if (!listed.ok()) columns.clear();
  return columns;
}

}  // namespace proftrace
