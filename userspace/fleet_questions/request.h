// A request to an engine: statements in order, over the tables of one directory or two.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/fleet_questions/question.h"
#include "userspace/fleet_questions/scratch_folder.h"

namespace proftrace {

class FleetRequest {
 public:
  explicit FleetRequest(ScratchFolder& scratch) : scratch_(scratch) {}

  // Makes the names of tables mean the tables of `directory` from here on. `is_remote`: the
  // directory is an address that only the engine understands.
  absl::Status UseTables(const std::string& directory, bool is_remote);
  // Stores the rows of the views that the texts use, so that each view is computed only once.
  void KeepViews(const std::vector<std::string_view>& texts);
  // Stores the rows of a query under a name for the statements that follow.
  void Keep(std::string_view name, std::string_view text);
  // Defines all views without storing their rows: they are computed whenever they are used.
  void MakeViews();
  // Ask a question, a query under a given name, or a query whose answer is named "question".
  void Ask(const Question& question);
  void AskNamed(std::string_view name, std::string_view text);
  void AskText(std::string_view text);
  // Makes DuckDB write the rows of Parquet files into one file, in their order, and asks under
  // `name` for the numbers of rows `before` and `after`. The paths must not contain quotes.
  void JoinFiles(std::string_view name, const std::vector<std::string>& paths,
                 const std::string& output);

  // Returns the whole request as one text for DuckDB's program.
  std::string AsSql() const;
  // Returns the request in the form that fleet/engine/driver.py reads. `engine`: "duckdb" or
  // "spark".
  nlohmann::json AsJson(std::string_view engine) const;

  // Returns an engine's message with the directories named as the user gave them.
  std::string WithGivenNames(std::string message) const;

 private:
  enum class Kind { kTable, kView, kKeep, kWrite, kAskNamed, kAsk };
  struct Statement {
    Kind kind;
    std::string name;
    std::string sql;      // for DuckDB; also the statement that makes a table's view
    std::string path;     // the path of a table's files, for Spark
    std::string columns;  // the columns of a table
  };
  struct Directory {
    std::string path;   // the path for the engine
    std::string given;  // the path as the user gave it
  };

  ScratchFolder& scratch_;
  std::vector<Directory> directories_;
  uint64_t table_bytes_ = 0;  // total size of the files of aligned tables
  std::vector<Statement> statements_;
};

}  // namespace proftrace
