// Reads a SQLite file that another program has written. Nothing in the file is executed, and
// nothing is written.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace proftrace {

// One row of an answer; columns count from 0. It is valid until the next row.
class SqliteRow {
 public:
  explicit SqliteRow(sqlite3_stmt* statement) : statement_(statement) {}
  std::optional<int64_t> Integer(int column) const;
  // Returns the text of a column; empty where there is none.
  std::string_view Text(int column) const;

 private:
  sqlite3_stmt* statement_;
};

class SqliteReader {
 public:
  static absl::StatusOr<SqliteReader> Open(const std::string& path);

  // Returns the columns of a table; empty where there is no table of that name. Views and virtual
  // tables are left out, because the file decides what they do.
  std::set<std::string> ColumnsOf(const std::string& table) const;
  // Calls `take` with each row of the answer. Fails with kInputDamaged, or as `take` does.
  template <typename Take>
  absl::Status ForEachRow(const std::string& query, const Take& take) const {
    const absl::StatusOr<Statement> statement = Prepare(query);
    if (!statement.ok()) return statement.status();
    while (true) {
      const int result = sqlite3_step(statement->get());
      if (result == SQLITE_DONE) return absl::OkStatus();
      if (result != SQLITE_ROW) return Damaged();
      if (absl::Status status = take(SqliteRow(statement->get())); !status.ok()) return status;
    }
  }

 private:
  struct CloseDatabase {
    void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
  };
  struct FinishStatement {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  using Statement = std::unique_ptr<sqlite3_stmt, FinishStatement>;

  SqliteReader(std::string path, std::unique_ptr<sqlite3, CloseDatabase> database);
  absl::StatusOr<Statement> Prepare(const std::string& query) const;
  absl::Status Damaged() const;

  std::string path_;
  std::unique_ptr<sqlite3, CloseDatabase> database_;
};

}  // namespace proftrace
