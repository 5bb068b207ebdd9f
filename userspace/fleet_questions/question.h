// Finds the questions about a fleet by name. Each is one SELECT in fleet/sql/NN_name.sql.
#pragma once

#include <absl/status/status.h>

#include <string>
#include <string_view>
#include <vector>

namespace proftrace {

struct Question {
  std::string_view name;  // "stragglers"
  // The first line of the file's header, which says what the question answers.
  std::string_view title;
  std::string_view text;  // the whole file
  // Whether other questions may use it by its name as they use a table.
  bool is_view = false;
  // Whether it compares two directories, so that only 'fleet diff' asks it.
  bool is_of_diff = false;
};

// Returns all questions. Views come before the questions that use them.
const std::vector<Question>& Questions();

// Returns the question of that name, with or without its number; nullptr where there is none.
const Question* FindQuestion(std::string_view name);

// Returns the error that there is no such question, with the most similar name.
absl::Status NoSuchQuestion(std::string_view name);

// Returns the views that the texts use, directly or through other views, in the order of
// Questions().
std::vector<const Question*> ViewsOf(const std::vector<std::string_view>& texts);

// Returns the text without comments, the semicolon at its end and the blanks around it.
std::string BareSql(std::string_view text);

// Fails with kUsage unless the text is one statement.
absl::Status CheckOneStatement(std::string_view text);

}  // namespace proftrace
