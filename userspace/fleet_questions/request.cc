#include "userspace/fleet_questions/request.h"

#include "userspace/base/shown_text.h"
#include "userspace/base/text.h"
#include "userspace/fleet_questions/fleet_tables.h"

namespace proftrace {
namespace {

using nlohmann::json;

constexpr std::string_view kAnswer = "proftrace_answer";

// The memory that DuckDB may take before it spills to the disk. Some more is added for each byte of
// the tables that it holds as a whole.
constexpr uint64_t kLeastMemory = 160'000'000;
constexpr uint64_t kMemoryAByte = 4;
// Up to this size of the tables one thread answers. Several threads add the parts of a mean in an
// order of their own, so that the last digits of answers differ from run to run.
constexpr uint64_t kMostBytesOfOneThread = uint64_t{16} << 20;

// Returns DuckDB's settings: a question that needs more memory spills to the scratch folder, and
// DuckDB downloads no extensions.
std::vector<std::string> Settings(const ScratchFolder& scratch, uint64_t table_bytes) {
  std::vector<std::string> settings = {
      "SET temp_directory = '" + scratch.path() + "/spilled'",
      "SET memory_limit = '" + std::to_string(kLeastMemory + kMemoryAByte * table_bytes) + "B'",
      "SET autoinstall_known_extensions = false"};
  if (table_bytes <= kMostBytesOfOneThread) settings.emplace_back("SET threads = 1");
  return settings;
}

json ColumnsOf(const std::string& columns) {
  json list = json::array();
  for (const std::string_view column : SplitText(columns, ",", /*skip_empty=*/true)) {
    const std::string_view words = StripBlanks(column);
    const size_t blank = words.find(' ');
    list.push_back({words.substr(0, blank), words.substr(blank + 1)});
  }
  return list;
}

}  // namespace

absl::Status FleetRequest::UseTables(const std::string& directory, bool is_remote) {
  std::string path = directory;
  if (!is_remote) {
    const absl::StatusOr<std::string> link = scratch_.Link(directory);
    if (!link.ok()) return link.status();
    path = *link;
  }
  directories_.push_back({path, directory});
  for (const FleetTable& table : FleetTables()) {
    Statement statement;
    statement.kind = Kind::kTable;
    statement.name = table.name;
    if (!is_remote) {
      statement.sql = TableViewSql(table, path, HasFiles(directory, table));
      table_bytes_ += AlignedBytes(directory, table);
    }
    statement.path = path + "/" + (table.is_aligned ? FilesOf(table) : std::string(table.name));
    statement.columns = std::string(kCommonColumns) + ", " + std::string(table.columns);
    statements_.push_back(std::move(statement));
  }
  return absl::OkStatus();
}

void FleetRequest::KeepViews(const std::vector<std::string_view>& texts) {
  for (const Question* view : ViewsOf(texts)) Keep(view->name, view->text);
}

void FleetRequest::Keep(std::string_view name, std::string_view text) {
  statements_.push_back({Kind::kKeep, std::string(name), BareSql(text), "", ""});
}

void FleetRequest::MakeViews() {
  for (const Question& view : Questions()) {
    if (!view.is_view) continue;
    statements_.push_back({Kind::kView, std::string(view.name), BareSql(view.text), "", ""});
  }
}

void FleetRequest::Ask(const Question& question) { AskNamed(question.name, question.text); }

void FleetRequest::AskNamed(std::string_view name, std::string_view text) {
  statements_.push_back({Kind::kAskNamed, std::string(name), BareSql(text), "", ""});
}

void FleetRequest::AskText(std::string_view text) {
  statements_.push_back({Kind::kAsk, "question", BareSql(text), "", ""});
}

void FleetRequest::JoinFiles(std::string_view name, const std::vector<std::string>& paths,
                             const std::string& output) {
  std::string list;
  for (const std::string& path : paths) list += (list.empty() ? "'" : ", '") + path + "'";
  const std::string before =
      "read_parquet([" + list + "], union_by_name = true, " + "hive_partitioning = false)";
  statements_.push_back(
      {Kind::kWrite, std::string(name),
       "COPY (SELECT * FROM " + before + ") TO '" + output + "' (FORMAT parquet, COMPRESSION zstd)",
       "", ""});
  AskNamed(name, "SELECT (SELECT COUNT(*) FROM " + before + ") AS before, (SELECT COUNT(*) FROM " +
                     "read_parquet('" + output + "')) AS after");
}

std::string FleetRequest::AsSql() const {
  std::string sql;
  for (const std::string& setting : Settings(scratch_, table_bytes_)) sql += setting + ";\n";
  for (const Statement& statement : statements_) {
    switch (statement.kind) {
      case Kind::kTable:
      case Kind::kWrite:
        sql += statement.sql + ";\n";
        break;
      case Kind::kView:
        sql += "CREATE OR REPLACE TEMP VIEW " + statement.name + " AS " + statement.sql + ";\n";
        break;
      case Kind::kKeep:
        sql += "CREATE OR REPLACE TEMP TABLE " + statement.name + " AS " + statement.sql + ";\n";
        break;
      case Kind::kAskNamed:
        // The answer is stored in a table first, so that columns and rows come from one run of the
        // question.
        sql += "CREATE OR REPLACE TEMP TABLE " + std::string(kAnswer) + " AS " + statement.sql +
               ";\nSELECT '" + statement.name + "' AS proftrace_question;\nDESCRIBE " +
               std::string(kAnswer) + ";\nSELECT '" + statement.name +
               "' AS proftrace_rows;\nSELECT * FROM " + std::string(kAnswer) + ";\n";
        break;
      case Kind::kAsk:
        sql += "SELECT '" + statement.name + "' AS proftrace_question;\nDESCRIBE " + statement.sql +
               ";\nSELECT '" + statement.name + "' AS proftrace_rows;\n" + statement.sql + ";\n";
        break;
    }
  }
  return sql;
}

json FleetRequest::AsJson(std::string_view engine) const {
  json request = {
      {"engine", engine},
      {"settings", Settings(scratch_, table_bytes_)},
      {"spark", {{"spark.ui.enabled", "false"}, {"spark.ui.showConsoleProgress", "false"}}},
      {"statements", json::array()}};
  for (const Statement& statement : statements_) {
    json one = {{"name", statement.name}, {"sql", statement.sql}};
    switch (statement.kind) {
      case Kind::kTable:
        one["kind"] = "table";
        one["path"] = statement.path;
        one["columns"] = ColumnsOf(statement.columns);
        break;
      case Kind::kWrite:
        one["kind"] = "write";
        break;
      case Kind::kView:
        one["kind"] = "view";
        break;
      case Kind::kKeep:
        one["kind"] = "keep";
        break;
      case Kind::kAskNamed:
      case Kind::kAsk:
        one["kind"] = "ask";
        break;
    }
    request["statements"].push_back(std::move(one));
  }
  return request;
}

std::string FleetRequest::WithGivenNames(std::string message) const {
  for (const Directory& directory : directories_) {
    if (directory.path == directory.given) continue;
    for (size_t at = 0; (at = message.find(directory.path, at)) != std::string::npos;
         at += directory.given.size()) {
      message.replace(at, directory.path.size(), directory.given);
    }
  }
  return ShownText(message);
}

}  // namespace proftrace
