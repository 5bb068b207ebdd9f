#include "userspace/top/top_state.h"

#include <algorithm>
#include <cctype>

#include "exporters/text/why_text.h"
#include "userspace/base/text.h"
#include "userspace/base/utf8.h"

namespace proftrace {
namespace {

constexpr std::string_view kViewKeys = "omptfwg";  // by TopView
constexpr size_t kLongestFilter = 200;

constexpr std::string_view kHelp =
    "o m p t f w g   operators, modules, Python, threads, files, waits, GPU\n"
    "s, 1 to 9       sort by the next column, by the first to the ninth one\n"
    "R               the smallest first, or again the largest\n"
    "/               show names with these letters in them only; Escape ends that\n"
    "arrows, pages   go through the rows; Home, End\n"
    "+, Enter        in threads: choose the thread, or no longer. Operators, Python\n"
    "                and waits are then those of the chosen threads alone\n"
    "x               choose no threads: all of them\n"
    "v               the whole verdict: why steps take so long, with evidence\n"
    "space           pause; the recording goes on, and another space shows it\n"
    "r               keep the last seconds as a recording: a result directory\n"
    "d               dump: the Python stacks of all threads now\n"
    "?               this help\n"
    "q               quit; the job is left as it was\n"
    "\n"
    "All figures are those of one step, on average over the steps of the window;\n"
    "where no steps were found, those of one second.";

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) {
    return c < 0x80 ? static_cast<char>(std::tolower(c)) : static_cast<char>(c);
  });
  return lower;
}

void Move(ptrdiff_t by, size_t count, size_t* at) {
  const auto last = static_cast<ptrdiff_t>(count == 0 ? 0 : count - 1);
  *at = static_cast<size_t>(std::clamp<ptrdiff_t>(static_cast<ptrdiff_t>(*at) + by, 0, last));
}

// Moves `*at` as an arrow or page key says. Returns false for any other key.
bool MoveBy(const TopKey& key, size_t page, size_t count, size_t* at) {
  const auto whole = static_cast<ptrdiff_t>(count);
  const auto part = static_cast<ptrdiff_t>(std::max<size_t>(1, page));
  switch (key.kind) {
    case TopKeyKind::kUp:
      Move(-1, count, at);
      return true;
    case TopKeyKind::kDown:
      Move(1, count, at);
      return true;
    case TopKeyKind::kPageUp:
      Move(-part, count, at);
      return true;
    case TopKeyKind::kPageDown:
      Move(part, count, at);
      return true;
    case TopKeyKind::kHome:
      Move(-whole, count, at);
      return true;
    case TopKeyKind::kEnd:
      Move(whole, count, at);
      return true;
    default:
      return false;
  }
}

TopAction OnFilterKey(const TopKey& key, TopState* state) {
  if (key.kind == TopKeyKind::kEnter) {
    state->filter = state->typed;
    state->mode = TopMode::kTable;
    state->cursor = 0;
  } else if (key.kind == TopKeyKind::kEscape) {
    state->mode = TopMode::kTable;
  } else if (key.kind == TopKeyKind::kBackspace) {
    // Removes a whole UTF-8 character: its first byte is the last byte that is not a continuation.
    size_t length = state->typed.size();
    while (length > 0 && (static_cast<unsigned char>(state->typed[length - 1]) & 0xC0) == 0x80) {
      --length;
    }
    state->typed.resize(length == 0 ? 0 : length - 1);
  } else if (key.kind == TopKeyKind::kCharacter && state->typed.size() < kLongestFilter) {
    state->typed += key.text;
  }
  return TopAction::kNone;
}

TopAction OnTextKey(const TopKey& key, size_t page, TopState* state) {
  const size_t count = state->lines.size();
  // How many rows a line takes depends on the screen: scrolling stops at the last line.
  if (MoveBy(key, page, std::max<size_t>(1, count), &state->first_line)) {
    return TopAction::kNone;
  }
  state->mode = TopMode::kTable;
  state->lines.clear();
  return TopAction::kNone;
}

TopAction ChooseThread(const TopModel& model, TopState* state) {
  if (state->view != TopView::kThreads) {
    state->message = "Threads are chosen in their own view: press t.";
    return TopAction::kNone;
  }
  const std::vector<const TopRow*> rows = ShownRows(model, *state);
  if (state->cursor >= rows.size() || !rows[state->cursor]->thread.has_value()) {
    return TopAction::kNone;
  }
  const auto& [pid, tid] = *rows[state->cursor]->thread;
  const std::pair thread(Raw(pid), Raw(tid));
  if (state->threads.erase(thread) == 0) state->threads.insert(thread);
  return TopAction::kThreads;
}

void SortBy(size_t column, const TopModel& model, TopState* state) {
  const size_t columns = model.table(state->view).columns.size();
  if (column >= columns) return;
  state->sort_columns[static_cast<size_t>(state->view)] = column;
  state->cursor = 0;
}

TopAction OnEscape(TopState* state) {
  state->filter.clear();
  state->message.clear();
  return TopAction::kNone;
}

TopAction OnCharacter(char character, const TopModel& model, TopState* state) {
  if (const size_t view = kViewKeys.find(character); view != std::string_view::npos) {
    state->view = static_cast<TopView>(view);
    state->cursor = 0;
    return TopAction::kNone;
  }
  if (character >= '1' && character <= '9') {
    SortBy(static_cast<size_t>(character - '1'), model, state);
    return TopAction::kNone;
  }
  switch (character) {
    case 'q':
      return TopAction::kQuit;
    case ' ':
      state->is_paused = !state->is_paused;
      return TopAction::kPause;
    case 's': {
      const size_t columns = std::max<size_t>(1, model.table(state->view).columns.size());
      SortBy((state->sort_columns[static_cast<size_t>(state->view)] + 1) % columns, model, state);
      return TopAction::kNone;
    }
    case 'R':
      state->is_ascending = !state->is_ascending;
      return TopAction::kNone;
    case '/':
      state->mode = TopMode::kFilter;
      state->typed = state->filter;
      return TopAction::kNone;
    case '+':
      return ChooseThread(model, state);
    case 'x':
      if (state->threads.empty()) return TopAction::kNone;
      state->threads.clear();
      return TopAction::kThreads;
    case 'v':
      ShowLines("why", FormatVerdict(model.verdict), state);
      return TopAction::kNone;
    case 'r':
      return TopAction::kKeep;
    case 'd':
      return TopAction::kDump;
    case '?':
    case 'h':
      ShowLines("keys", kHelp, state);
      return TopAction::kNone;
    default:
      return TopAction::kNone;
  }
}

}  // namespace

TopAction OnTopKey(const TopKey& key, const TopModel& model, size_t page, TopState* state) {
  if (state->mode == TopMode::kFilter) return OnFilterKey(key, state);
  if (state->mode == TopMode::kText && key.Is('q'))
    return OnTextKey({TopKeyKind::kEscape, ""}, page, state);
  if (state->mode == TopMode::kText) return OnTextKey(key, page, state);
  if (MoveBy(key, page, ShownRows(model, *state).size(), &state->cursor)) return TopAction::kNone;
  if (key.kind == TopKeyKind::kEscape) return OnEscape(state);
  if (key.kind == TopKeyKind::kEnter) return ChooseThread(model, state);
  if (key.kind != TopKeyKind::kCharacter || key.text.size() != 1) return TopAction::kNone;
  return OnCharacter(key.text[0], model, state);
}

std::vector<const TopRow*> ShownRows(const TopModel& model, const TopState& state) {
  const TopTable& table = model.table(state.view);
  const std::string filter = Lower(state.filter);
  std::vector<const TopRow*> rows;
  for (const TopRow& row : table.rows) {
    if (filter.empty() || Contains(Lower(row.name), filter)) rows.push_back(&row);
  }
  const size_t column = state.sort_columns[static_cast<size_t>(state.view)];
  const auto value = [column](const TopRow* row) {
    return column < row->values.size() ? row->values[column] : 0;
  };
  std::stable_sort(rows.begin(), rows.end(), [&](const TopRow* a, const TopRow* b) {
    return state.is_ascending ? value(a) < value(b) : value(a) > value(b);
  });
  return rows;
}

void ShowLines(const std::string& title, std::string_view text, TopState* state) {
  state->mode = TopMode::kText;
  state->title = title;
  state->lines.clear();
  for (const std::string_view line : SplitText(text, "\n", /*skip_empty=*/false)) {
    state->lines.emplace_back(line);
  }
  state->first_line = 0;
}

}  // namespace proftrace
