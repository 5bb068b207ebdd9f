// Holds what the user of `proftrace top` has chosen, and changes it by keys.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "userspace/top/top_keys.h"
#include "userspace/top/top_model.h"

namespace proftrace {

enum class TopMode : uint8_t {
  kTable = 0,
  kText,    // lines of text in place of the table: help, the verdict, a dump
  kFilter,  // the user is typing a filter
};

struct TopState {
  TopView view = TopView::kOperators;
  std::array<size_t, kTopViews> sort_columns{};  // by view: an index into TopTable::columns
  bool is_ascending = false;
  // Only rows whose names contain this text, in any case, are shown; empty: all rows.
  std::string filter;
  TopThreads threads;  // the chosen threads
  bool is_paused = false;
  TopMode mode = TopMode::kTable;
  size_t cursor = 0;               // index into the shown rows
  std::string typed;               // the filter being typed, until Enter
  std::string title;               // the title above `lines`
  std::vector<std::string> lines;  // unescaped: whoever puts the lines on a screen escapes them
  size_t first_line = 0;
  std::string message;  // the last message
};

enum class TopAction : uint8_t {
  kNone = 0,
  kQuit,
  kPause,    // pause, or go on again: is_paused says which
  kThreads,  // other threads were chosen, and the model must be made again
  kKeep,     // keep the last seconds as a recording
  kDump,     // show the stacks of all threads as they are now
};

// Changes the state as a key asks for, and returns what is left for the caller to do. `page`: how
// many rows or lines the screen has room for.
TopAction OnTopKey(const TopKey& key, const TopModel& model, size_t page, TopState* state);

// Returns the rows of the view that the filter lets through, in the order that is asked for.
std::vector<const TopRow*> ShownRows(const TopModel& model, const TopState& state);

// Shows lines in place of the table.
void ShowLines(const std::string& title, std::string_view text, TopState* state);

}  // namespace proftrace
