// Draws `proftrace top`: a model, what the user has chosen, and how the refreshing goes, as a grid
// of characters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "userspace/top/text_grid.h"
#include "userspace/top/top_model.h"
#include "userspace/top/top_state.h"

namespace proftrace {

// How the refreshing goes.
struct TopStatus {
  double asked_interval_s = 1;
  double interval_s = 1;  // as it is: longer where a refresh takes long
  double refresh_s = 0;   // that the last one took
  // How much of one processor the process that records, and the one that reads and draws, have used
  // since the refresh before. nullopt: not known yet.
  std::optional<double> recorder_cpu_percent;
  std::optional<double> viewer_cpu_percent;
  std::vector<TopStep> steps;  // the last ones seen, also those that left the window
  uint64_t steps_seen = 0;
  bool has_keys = true;  // false: what is drawn is printed, and no key can be pressed
};

// The number of steps that TopStatus keeps.
inline constexpr size_t kMostShownSteps = 512;

// Adds the model's steps that came since.
void NoteSteps(const TopModel& model, TopStatus* status);

// Draws all of it. `model`: nullptr: there is none yet. `page`: how many rows, or lines, it shows.
void DrawTop(const TopModel* model, const TopState& state, const TopStatus& status, TextGrid* grid,
             size_t* page);

// Returns a value as the screen shows it: "12.30", "1.2 MB".
std::string TopValueText(double value, TopUnit unit);
// Returns the last values as a line of that many characters, each between 0 and the largest of
// them.
std::string Sparkline(const std::vector<double>& values, size_t characters, bool is_utf8);

}  // namespace proftrace
