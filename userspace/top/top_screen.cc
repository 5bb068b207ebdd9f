#include "userspace/top/top_screen.h"

#include <absl/strings/str_format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "userspace/base/clock.h"
#include "userspace/why/case.h"

namespace proftrace {
namespace {

constexpr int kHeadRows = 7;  // lines above the table's own head
// Columns for the title; keys stand beside it where there is more room.
constexpr int kLeastTitle = 14;
constexpr double kLeastShare = 0.01;
constexpr int kLongestBar = 20;  // the length of the bar of a part that takes the whole step

std::string Milliseconds(int64_t ns) { return DurationText(ns); }

std::string OfMilliseconds(double ms) { return DurationText(std::llround(ms * 1e6)); }

std::string PercentOf(double share) {
  const double percent = 100 * share;
  return absl::StrFormat("%.*f%%", percent < 10 ? 1 : 0, percent);
}

class Drawer {
 public:
  Drawer(const TopModel* model, const TopState& state, const TopStatus& status, TextGrid* grid)
      : model_(model), state_(state), status_(status), grid_(*grid) {}

  size_t Draw() {
    DrawTitle();
    if (model_ == nullptr) {
      grid_.Put(2, 1, "Waiting for the first records of the job.");
    } else {
      DrawSteps();
      DrawParts();
      DrawVerdict();
      DrawDevices();
      DrawCost();
    }
    DrawViews();
    const size_t page = PageRows();
    if (state_.mode == TopMode::kText) {
      DrawLines(page);
    } else if (model_ != nullptr) {
      DrawTable(page);
    }
    if (status_.has_keys) DrawLastRow();
    return page;
  }

 private:
  size_t PageRows() const { return static_cast<size_t>(std::max(1, grid_.rows() - kHeadRows - 2)); }

  void DrawTitle() {
    std::string text = "proftrace top";
    if (model_ != nullptr) {
      text += "  " + model_->target;
      if (!model_->rank.empty()) text += "  rank " + model_->rank;
      if (model_->processes > 1) text += absl::StrFormat("  %d processes", model_->processes);
      if (!model_->torch_version.empty()) text += "  torch " + model_->torch_version;
      text += "  " + model_->tier;
    }
    const std::string right = !status_.has_keys  ? ""
                              : state_.is_paused ? " PAUSED: space "
                                                 : " ? help  q quit ";
    const int from = grid_.columns() - static_cast<int>(right.size());
    const bool has_room = from > kLeastTitle;
    grid_.Put(0, 0, text, TextStyle::kReverse, has_room ? from - 1 : grid_.columns());
    grid_.Paint(0, 0, grid_.columns(), TextStyle::kReverse);
    if (has_room) grid_.Put(0, from, right, TextStyle::kReverse);
  }

  void DrawSteps() {
    std::string text;
    if (!model_->are_steps) {
      text = absl::StrFormat(
          "No steps found in %s: figures are those of a second; a longer --window may find some",
          DurationText(model_->window_ns));
      grid_.Put(1, 1, text, TextStyle::kNotable);
      return;
    }
    text = absl::StrFormat("step %d%s  %s  median %s  p99 %s  %.3g/s  ", status_.steps_seen,
                           model_->is_guess ? " (a guess)" : "",
                           Milliseconds(model_->steps.back().duration_ns),
                           Milliseconds(model_->median_step_ns), Milliseconds(model_->p99_step_ns),
                           model_->steps_per_s);
    const int column = grid_.Put(1, 1, text, TextStyle::kBold);
    std::vector<double> values;
    for (const TopStep& step : status_.steps) {
      values.push_back(static_cast<double>(step.duration_ns));
    }
    const int room = grid_.columns() - column - 1;
    if (room > 0) {
      grid_.Put(1, column, Sparkline(values, static_cast<size_t>(room), grid_.is_utf8()),
                TextStyle::kTitle);
    }
  }

  // "data 31% ######  operators 58% ###########": draws the parts, the largest first, as far as two
  // rows have room.
  void DrawParts() {
    const std::string head = model_->are_steps ? "a step: " : "the time: ";
    int row = 2;
    int column = grid_.Put(row, 1, head);
    const int indent = column;
    for (const TopPart& part : model_->parts) {
      if (part.share < kLeastShare) continue;
      std::string name(StepPartName(part.part));
      std::replace(name.begin(), name.end(), '_', ' ');
      const std::string text =
          absl::StrFormat("%s %s %s ", name, PercentOf(part.share), OfMilliseconds(part.ms));
      const int bar = std::max(1, static_cast<int>(std::lround(part.share * kLongestBar)));
      const int width = static_cast<int>(text.size()) + bar + 2;
      if (column + width > grid_.columns() && column > indent) {
        if (++row > 3) return;
        column = indent;
      }
      column = grid_.Put(row, column, text);
      std::string blocks;
      for (int i = 0; i < bar; ++i) blocks += grid_.is_utf8() ? "█" : "#";
      column = grid_.Put(row, column, blocks, TextStyle::kGood) + 2;
    }
  }

  void DrawVerdict() {
    const Verdict& verdict = model_->verdict;
    if (verdict.findings.empty()) {
      grid_.Put(4, 1, verdict.remarks.empty() ? verdict.about : verdict.remarks.front());
      return;
    }
    const Finding& first = verdict.findings.front();
    const std::string text =
        absl::StrFormat("why: %s%s (%s%s): %s", OfMilliseconds(verdict.MsAStep(first)),
                        verdict.are_steps ? " a step" : "", PercentOf(verdict.ShareOf(first)),
                        first.certainty == Certainty::kLikely ? ", likely" : "", first.what);
    const std::string more = status_.has_keys ? " v: more" : "";
    const int end = std::max(0, grid_.columns() - static_cast<int>(more.size()));
    grid_.Put(4, 1, text, TextStyle::kBold, end);
    grid_.Put(4, end, more);
  }

  void DrawDevices() {
    if (model_->devices.empty()) {
      const std::vector<Finding>& findings = model_->verdict.findings;
      if (!findings.empty() && !findings.front().evidence.empty()) {
        grid_.Put(5, 6, findings.front().evidence.front());
      }
      return;
    }
    int column = 1;
    for (const TopDevice& device : model_->devices) {
      std::string text =
          absl::StrFormat("GPU%d %s busy", device.device, PercentOf(device.busy_share));
      for (size_t i = 0; i < std::min<size_t>(2, device.idle.size()); ++i) {
        text += absl::StrFormat("%s%s %s", i == 0 ? ", idle: " : ", ", device.idle[i].first,
                                PercentOf(device.idle[i].second));
      }
      column = grid_.Put(5, column, text, TextStyle::kTitle) + 2;
    }
  }

  void DrawCost() {
    const TopCost& cost = model_->cost;
    const auto percent = [](const std::optional<double>& value) {
      return value.has_value() ? absl::StrFormat("%.0f%%", *value) : std::string("?");
    };
    const int column =
        grid_.Put(6, 1,
                  absl::StrFormat("cost: the job %.1f%%, recording %s, view %s of a CPU; ",
                                  cost.overhead_percent, percent(status_.recorder_cpu_percent),
                                  percent(status_.viewer_cpu_percent)));
    const std::string lost = !model_->has_loss   ? "lost 0"
                             : model_->lost == 0 ? "LOST some"
                                                 : absl::StrFormat("LOST %d", model_->lost);
    const int end =
        grid_.Put(6, column, lost, model_->has_loss ? TextStyle::kBad : TextStyle::kPlain);
    grid_.Put(6, end, absl::StrFormat("; the last %.1f s", ToSeconds(model_->window_ns)));
  }

  void DrawViews() {
    int column = 0;
    for (size_t i = 0; i < kTopViews; ++i) {
      const auto view = static_cast<TopView>(i);
      const std::string_view name = TopViewName(view);
      const std::string text =
          "[" + std::string(name.substr(0, 1)) + "]" + std::string(name.substr(1));
      const bool is_shown = view == state_.view && state_.mode != TopMode::kText;
      column =
          grid_.Put(kHeadRows, column, text, is_shown ? TextStyle::kReverse : TextStyle::kPlain) +
          1;
    }
    std::string right;
    if (!state_.filter.empty()) right += "/" + state_.filter;
    if (!state_.threads.empty()) {
      right += absl::StrFormat("%s%d thread%s", right.empty() ? "" : "  ", state_.threads.size(),
                               state_.threads.size() == 1 ? "" : "s");
    }
    grid_.Put(kHeadRows, column + 1, right, TextStyle::kNotable);
  }

  void DrawLines(size_t page) {
    size_t drawn = 0;
    for (size_t i = state_.first_line; i < state_.lines.size() && drawn < page; ++i) {
      for (const std::string_view line :
           WrappedLines(state_.lines[i], grid_.columns(), grid_.is_utf8())) {
        if (drawn == page) return;
        grid_.Put(kHeadRows + 1 + static_cast<int>(drawn++), 0, line);
      }
    }
  }

  static int WidthOf(const TopColumn& column) {
    return std::max(column.unit == TopUnit::kCount ? 7 : 8,
                    static_cast<int>(column.title.size()) + 2);  // with the mark of the sorted one
  }

  void DrawTable(size_t page) {
    const TopTable& table = model_->table(state_.view);
    const int head = kHeadRows + 1;
    grid_.Paint(head, 0, grid_.columns(), TextStyle::kBold);
    int column = 1;
    const size_t sorted = state_.sort_columns[static_cast<size_t>(state_.view)];
    for (size_t i = 0; i < table.columns.size(); ++i) {
      const int width = WidthOf(table.columns[i]);
      const std::string title = std::string(table.columns[i].title) +
                                (i == sorted ? (state_.is_ascending ? "^" : "*") : "");
      column += width;
      grid_.Put(head, column - static_cast<int>(title.size()), title, TextStyle::kBold);
    }
    grid_.Put(head, column + 2, model_->are_steps ? "NAME (a step)" : "NAME (a second)",
              TextStyle::kBold);
    if (table.rows.empty()) {
      grid_.Put(head + 2, 2, table.missing.empty() ? "There are none." : table.missing);
      return;
    }
    DrawRows(table, page - 1, head + 1);
  }

  void DrawRows(const TopTable& table, size_t page, int first_row) {
    const std::vector<const TopRow*> rows = ShownRows(*model_, state_);
    if (rows.empty()) {
      grid_.Put(first_row + 1, 2, "No name has \"" + state_.filter + "\" in it; Escape shows all.");
      return;
    }
    const size_t cursor = std::min(state_.cursor, rows.size() - 1);
    const size_t first = cursor < page ? 0 : cursor - page + 1;
    for (size_t i = first; i < rows.size() && i < first + page; ++i) {
      const int row = first_row + static_cast<int>(i - first);
      DrawRow(table, *rows[i], row);
      // The cursor is shown once it was moved, and always in the view in which it chooses threads.
      if (i == cursor && (cursor > 0 || state_.view == TopView::kThreads)) {
        grid_.Put(row, 0, ">", TextStyle::kBold);
      }
    }
  }

  void DrawRow(const TopTable& table, const TopRow& shown, int row) {
    int column = 1;
    for (size_t i = 0; i < table.columns.size() && i < shown.values.size(); ++i) {
      const std::string text = TopValueText(shown.values[i], table.columns[i].unit);
      column += WidthOf(table.columns[i]);
      grid_.Put(row, column - static_cast<int>(text.size()), text);
    }
    const bool is_chosen =
        shown.thread.has_value() &&
        state_.threads.contains({Raw(shown.thread->first), Raw(shown.thread->second)});
    if (is_chosen) grid_.Put(row, column + 1, "+", TextStyle::kNotable);
    grid_.Put(row, column + 2, shown.name, is_chosen ? TextStyle::kNotable : TextStyle::kPlain);
  }

  void DrawLastRow() {
    const int row = grid_.rows() - 1;
    if (state_.mode == TopMode::kFilter) {
      grid_.Put(row, 0, "/" + state_.typed + "_", TextStyle::kBold);
      return;
    }
    if (state_.mode == TopMode::kText) {
      grid_.Put(row, 0,
                absl::StrFormat("%s: line %d of %d; arrows and pages move, another key goes back",
                                state_.title, state_.first_line + 1, state_.lines.size()),
                TextStyle::kBold);
      return;
    }
    if (!state_.message.empty()) {
      grid_.Put(row, 0, state_.message, TextStyle::kNotable);
      return;
    }
    if (model_ == nullptr) return;
    const bool is_slow = status_.interval_s > 1.05 * status_.asked_interval_s;
    const std::string text =
        is_slow
            ? absl::StrFormat("a refresh takes %.1f s: every %.1f s instead of %.1f s",
                              status_.refresh_s, status_.interval_s, status_.asked_interval_s)
            : absl::StrFormat("every %.1f s (takes %.2f s)", status_.interval_s, status_.refresh_s);
    grid_.Put(row, 0, text + "   s sort  / filter  v why  r record  d dump",
              is_slow ? TextStyle::kNotable : TextStyle::kPlain);
  }

  const TopModel* model_;
  const TopState& state_;
  const TopStatus& status_;
  TextGrid& grid_;
};

}  // namespace

void NoteSteps(const TopModel& model, TopStatus* status) {
  const int64_t last_ns = status->steps.empty()
                              ? INT64_MIN
                              : status->steps.back().start_ns + status->steps.back().duration_ns;
  for (const TopStep& step : model.steps) {
    if (step.start_ns < last_ns) continue;
    status->steps.push_back(step);
    ++status->steps_seen;
  }
  if (status->steps.size() > kMostShownSteps) {
    status->steps.erase(status->steps.begin(),
                        status->steps.end() - static_cast<ptrdiff_t>(kMostShownSteps));
  }
}

void DrawTop(const TopModel* model, const TopState& state, const TopStatus& status, TextGrid* grid,
             size_t* page) {
  *page = Drawer(model, state, status, grid).Draw();
}

std::string TopValueText(double value, TopUnit unit) {
  switch (unit) {
    case TopUnit::kPercent:
      return absl::StrFormat("%.1f", value);
    case TopUnit::kNumber:
      return absl::StrFormat("%.0f", value);
    case TopUnit::kBytes:
      if (value < 1e3) return absl::StrFormat("%.0f B", value);
      if (value < 1e6) return absl::StrFormat("%.1f kB", value / 1e3);
      if (value < 1e9) return absl::StrFormat("%.1f MB", value / 1e6);
      return absl::StrFormat("%.1f GB", value / 1e9);
    case TopUnit::kCount:
      if (value >= 1e6) return absl::StrFormat("%.1fM", value / 1e6);
      if (value >= 1e4) return absl::StrFormat("%.0f", value);
      return absl::StrFormat("%.*f", value < 10 ? 2 : 1, value);
    case TopUnit::kMs:
      break;
  }
  const int digits = std::abs(value) < 10 ? 3 : std::abs(value) < 100 ? 2 : 1;
  return absl::StrFormat("%.*f", digits, value);
}

std::string Sparkline(const std::vector<double>& values, size_t characters, bool is_utf8) {
  static constexpr std::array<std::string_view, 8> kBlocks = {"▁", "▂", "▃", "▄",
                                                              "▅", "▆", "▇", "█"};
  static constexpr std::array<std::string_view, 8> kMarks = {"_", ".", ":", "-",
                                                             "=", "+", "*", "#"};
  const size_t first = values.size() > characters ? values.size() - characters : 0;
  double largest = 0;
  for (size_t i = first; i < values.size(); ++i) largest = std::max(largest, values[i]);
  std::string line;
  for (size_t i = first; i < values.size(); ++i) {
    const double height = largest <= 0 ? 0 : std::clamp(values[i] / largest, 0.0, 1.0);
    const auto level = static_cast<size_t>(std::lround(height * 7));
    line += is_utf8 ? kBlocks[level] : kMarks[level];
  }
  return line;
}

}  // namespace proftrace
