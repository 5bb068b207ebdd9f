// The questions of a fleet by their names: fleet/sql/NN_name.sql, one SELECT each.
#pragma once

#include <absl/status/status.h>

#include <string>
#include <string_view>
#include <vector>

namespace proftrace {

struct Question {
  std::string_view name;   // "stragglers"
  std::string_view title;  // the first line of its header: what it answers
  std::string_view text;   // the whole file
  // Others are built on it, and may name it as they name a table.
  bool is_view = false;
  // It is over two directories: 'fleet diff' alone asks it.
  bool is_of_diff = false;
};

// Returns all questions, views before what is built on them.
const std::vector<Question>& Questions();

// Returns the question of that name, with or without its number; nullptr: there is none.
const Question* FindQuestion(std::string_view name);

// Returns the error that says so, and which name is near.
absl::Status NoSuchQuestion(std::string_view name);

// Returns the views that the texts name, and those that these name, in the order of Questions().
std::vector<const Question*> ViewsOf(const std::vector<std::string_view>& texts);

// Returns the text without comments, the semicolon at its end and the blanks around it.
std::string BareSql(std::string_view text);

// Fails with kUsage unless the text is one statement.
absl::Status CheckOneStatement(std::string_view text);

}  // namespace proftrace
