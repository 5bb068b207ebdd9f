// A request holds what an engine is asked: statements in order, over the tables of one directory or
// two.
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

  // Has the names of tables stand for those of `directory` from here on. `is_remote`: it is an
  // address that the engine alone understands.
  absl::Status UseTables(const std::string& directory, bool is_remote);
  // Has the views that the texts name stand for their rows, and these be found but once.
  void KeepViews(const std::vector<std::string_view>& texts);
  // Has the name stand for the rows of the text from here on.
  void Keep(std::string_view name, std::string_view text);
  // Makes all views, whose rows are found whenever they are asked for.
  void MakeViews();
  // Asks a question or a text by a name, which the answer has then, or a text: "question".
  void Ask(const Question& question);
  void AskNamed(std::string_view name, std::string_view text);
  void AskText(std::string_view text);
  // Has DuckDB write the rows of Parquet files into one, in their order, and asks, under `name`,
  // for the numbers of rows `before` and `after`. The paths have no quote.
  void JoinFiles(std::string_view name, const std::vector<std::string>& paths,
                 const std::string& output);

  // Returns all of it as one text for DuckDB's program.
  std::string AsSql() const;
  // Returns it as fleet/engine/driver.py reads it. `engine`: "duckdb" or "spark".
  nlohmann::json AsJson(std::string_view engine) const;

  // Returns an engine's message with the directories as they were given.
  std::string WithGivenNames(std::string message) const;

 private:
  enum class Kind { kTable, kView, kKeep, kWrite, kAskNamed, kAsk };
  struct Statement {
    Kind kind;
    std::string name;
    std::string sql;      // for DuckDB: of a table's view as well
    std::string path;     // of a table's files, for Spark
    std::string columns;  // of a table
  };
  struct Directory {
    std::string path;   // as the engine finds it
    std::string given;  // as the user named it
  };

  ScratchFolder& scratch_;
  std::vector<Directory> directories_;
  uint64_t table_bytes_ = 0;  // of files of tables that are aligned
  std::vector<Statement> statements_;
};

}  // namespace proftrace
