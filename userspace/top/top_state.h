// What the user of `proftrace top` has chosen, and what keys do to it.
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
  kText,    // lines in place of the table: help, the verdict, a dump
  kFilter,  // a filter is typed
};

struct TopState {
  TopView view = TopView::kOperators;
  std::array<size_t, kTopViews> sort_columns{};  // by view: an index into TopTable::columns
  bool is_ascending = false;
  std::string filter;  // names have it in them, in whatever case; empty: all names
  TopThreads threads;  // chosen ones
  bool is_paused = false;
  TopMode mode = TopMode::kTable;
  size_t cursor = 0;               // of the shown rows
  std::string typed;               // of a filter, until it is taken
  std::string title;               // of the lines
  std::vector<std::string> lines;  // as they are: whoever puts them on a screen escapes them
  size_t first_line = 0;
  std::string message;  // the last one
};

enum class TopAction : uint8_t {
  kNone = 0,
  kQuit,
  kPause,    // or go on: is_paused says which
  kThreads,  // other threads were chosen: the model is to be made again
  kKeep,     // the last seconds as a recording
  kDump,     // the stacks of all threads now
};

// Does what a key asks for. `page`: rows, or lines, that the screen has room for.
TopAction OnTopKey(const TopKey& key, const TopModel& model, size_t page, TopState* state);

// Returns the rows of the view that the filter lets through, in the order that is asked for.
std::vector<const TopRow*> ShownRows(const TopModel& model, const TopState& state);

// Shows lines in place of the table.
void ShowLines(const std::string& title, std::string_view text, TopState* state);

}  // namespace proftrace
