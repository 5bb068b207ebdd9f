#include "userspace/fleet_questions/question.h"

#include <algorithm>
#include <cctype>
#include <cstddef>

#include "userspace/base/exit_status.h"
#include "userspace/base/nearest_word.h"
#include "userspace/base/shown_text.h"
#include "userspace/base/text.h"
#include "userspace/fleet_questions/embedded.h"

namespace proftrace {
namespace {

constexpr size_t kNumberLength = 3;  // "12_"
constexpr std::string_view kViewMark = "-- A view:";
constexpr std::string_view kDiffMark = "-- For 'fleet diff':";

std::vector<Question> ReadQuestions() {
  std::vector<Question> questions;
  for (const EmbeddedText& file : EmbeddedQuestions()) {
    Question question;
    question.name = file.name.substr(kNumberLength);
    question.text = file.text;
    question.title = StripBlanks(file.text.substr(2, file.text.find('\n') - 2));
    question.is_view = Contains(file.text, kViewMark);
    question.is_of_diff = Contains(file.text, kDiffMark);
    questions.push_back(question);
  }
  return questions;
}

bool IsWordCharacter(char character) {
  return std::isalnum(static_cast<unsigned char>(character)) != 0 || character == '_';
}

// Returns whether the text has the word as a whole word.
bool HasWord(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool begins = at == 0 || !IsWordCharacter(text[at - 1]);
    if (begins && (end == text.size() || !IsWordCharacter(text[end]))) return true;
  }
  return false;
}

// Returns the end of the piece that begins at `begin`: a quoted text, a comment, or a single
// character. Sets `*is_comment` where it is a comment.
size_t EndOfPiece(std::string_view text, size_t begin, bool* is_comment) {
  const auto end_behind = [&](std::string_view mark, size_t from) {
    const size_t end = text.find(mark, from);
    return end == std::string_view::npos ? text.size() : end + mark.size();
  };
  const std::string_view rest = text.substr(begin);
  *is_comment = rest.starts_with("--") || rest.starts_with("/*");
  if (rest.starts_with("--")) return std::min(text.find('\n', begin), text.size());
  if (rest.starts_with("/*")) return end_behind("*/", begin + 2);
  // A quote inside of a quoted text is doubled, which this reads as two quoted texts side by side.
  if (rest.starts_with("'") || rest.starts_with("\"") || rest.starts_with("`")) {
    return end_behind(rest.substr(0, 1), begin + 1);
  }
  if (rest.starts_with("$$")) return end_behind("$$", begin + 2);
  return begin + 1;
}

}  // namespace

const std::vector<Question>& Questions() {
  static const auto* const kAll = new std::vector<Question>(ReadQuestions());
  return *kAll;
}

const Question* FindQuestion(std::string_view name) {
  if (name.ends_with(".sql")) name.remove_suffix(4);
  for (const Question& question : Questions()) {
    if (question.name == name) return &question;
    if (name.size() > kNumberLength && name[2] == '_' &&
        question.name == name.substr(kNumberLength) &&
        ParseNumber<int>(name.substr(0, 2)).has_value()) {
      return &question;
    }
  }
  return nullptr;
}

absl::Status NoSuchQuestion(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Question& question : Questions()) names.push_back(question.name);
  const std::string_view nearest = NearestWord(name, names);
  std::string text = "there is no question '" + ShownText(name) + "'";
  if (!nearest.empty()) text += "; did you mean " + std::string(nearest) + "?";
  return Fail(ExitCode::kUsage, text + (text.ends_with('?') ? " " : "; ") +
                                    "proftrace fleet query --list lists them");
}

std::vector<const Question*> ViewsOf(const std::vector<std::string_view>& texts) {
  std::vector<const Question*> views;
  std::vector<std::string> named;
  for (const std::string_view text : texts) named.push_back(BareSql(text));
  // Views use earlier views only, so that one pass from the last to the first is enough.
  for (auto one = Questions().rbegin(); one != Questions().rend(); ++one) {
    const bool is_named = std::any_of(named.begin(), named.end(), [&](const std::string& text) {
      return HasWord(text, one->name);
    });
    if (!one->is_view || !is_named) continue;
    views.push_back(&*one);
    named.push_back(BareSql(one->text));
  }
  std::reverse(views.begin(), views.end());
  return views;
}

std::string BareSql(std::string_view text) {
  std::string bare;
  bool is_comment = false;
  for (size_t at = 0; at < text.size();) {
    const size_t end = EndOfPiece(text, at, &is_comment);
    if (!is_comment) bare += text.substr(at, end - at);
    if (is_comment) bare += ' ';
    at = end;
  }
  std::string_view stripped = StripBlanks(bare);
  while (stripped.ends_with(';')) stripped = StripBlanks(stripped.substr(0, stripped.size() - 1));
  return std::string(stripped);
}

absl::Status CheckOneStatement(std::string_view text) {
  const std::string bare = BareSql(text);
  if (bare.empty()) return Fail(ExitCode::kUsage, "the question is empty; give one SELECT");
  bool is_comment = false;
  for (size_t at = 0; at < bare.size(); at = EndOfPiece(bare, at, &is_comment)) {
    if (bare[at] != ';') continue;
    return Fail(ExitCode::kUsage,
                "the question has several statements; give one SELECT, or use 'proftrace fleet "
                "sql'");
  }
  return absl::OkStatus();
}

}  // namespace proftrace
