// Draws `proftrace top` as a grid of characters, from the model, the user's choices and the state
// of the refreshing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "userspace/top/text_grid.h"
#include "userspace/top/top_model.h"
#include "userspace/top/top_state.h"

namespace proftrace {

// The state of the refreshing.
struct TopStatus {
  double asked_interval_s = 1;
  double interval_s = 1;  // the actual interval, which is longer where a refresh takes long
  double refresh_s = 0;   // how long the last refresh took
  // How much of one processor the recording process and the drawing process have used since the
  // refresh before; nullopt where that is not known yet.
  std::optional<double> recorder_cpu_percent;
  std::optional<double> viewer_cpu_percent;
  // The last steps that were seen, including steps that have left the window since.
  std::vector<TopStep> steps;
  uint64_t steps_seen = 0;
  bool has_keys = true;  // false: the drawing is printed as text, and no key can be pressed
};

// The most steps that TopStatus keeps.
inline constexpr size_t kMostShownSteps = 512;

// Adds the model's steps that are newer than those in `status`.
void NoteSteps(const TopModel& model, TopStatus* status);

// Draws the whole screen. `model`: nullptr where there is none yet. `page`: receives how many rows
// or lines of the table or text are visible.
void DrawTop(const TopModel* model, const TopState& state, const TopStatus& status, TextGrid* grid,
             size_t* page);

// Returns a value as the screen shows it: "12.30", "1.2 MB".
std::string TopValueText(double value, TopUnit unit);
// Returns the last `characters` values as a line of bars, one character each. The scale goes from 0
// to the largest of these values.
std::string Sparkline(const std::vector<double>& values, size_t characters, bool is_utf8);

}  // namespace proftrace
