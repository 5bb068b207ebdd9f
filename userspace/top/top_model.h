// The figures that `proftrace top` shows for one window of a flight recorder: the pipeline's
// aggregates and the verdict, per step. Nothing is measured here anew. Texts are as the job has
// them: whoever shows them must escape them.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "userspace/aggregate/aggregates.h"
#include "userspace/model/timeline.h"
#include "userspace/why/finding.h"
#include "userspace/why/step_parts.h"

namespace proftrace {

enum class TopView : uint8_t {
  kOperators = 0,
  kModules,
  kPython,
  kThreads,
  kFiles,
  kWaits,
  kGpu,
};
inline constexpr size_t kTopViews = 7;

// Returns the view's name: "operators", "modules", "python", "threads", "files", "waits" or "gpu".
std::string_view TopViewName(TopView view);

enum class TopUnit : uint8_t {
  kMs = 0,  // milliseconds
  kCount,
  kPercent,
  kBytes,
  kNumber,  // the number of a thread
};

struct TopColumn {
  std::string_view key;    // in JSON
  std::string_view title;  // on the screen
  TopUnit unit = TopUnit::kMs;
};

struct TopRow {
  std::string name;
  std::vector<double> values;  // by column
  // The row's thread; nullopt where the row belongs to no single thread.
  std::optional<std::pair<Pid, Tid>> thread;
};

struct TopTable {
  std::vector<TopColumn> columns;
  std::vector<TopRow> rows;  // the largest value of the first column first
  size_t left_out = 0;       // how many smaller rows are not in `rows`
  std::string missing;       // a sentence: why there are no rows, and how to get some
};

// The most rows of a table. Nobody reads more, and some jobs make new names without end.
inline constexpr size_t kMostTopRows = 1000;

struct TopPart {
  StepPart part = StepPart::kPython;
  double ms = 0;
  double share = 0;  // 0 to 1
};

struct TopStep {
  int64_t start_ns = 0;  // CLOCK_MONOTONIC
  int64_t duration_ns = 0;
};

struct TopDevice {
  Pid pid{};
  uint32_t device = 0;
  double busy_share = 0;  // share of the time in which the GPU was busy, 0 to 1
  // Causes of idle time, and the shares of the time that they took.
  std::vector<std::pair<std::string, double>> idle;
};

struct TopCost {
  double overhead_percent = 0;  // by how much the recording makes the busiest thread slower
  double ns_per_hit = 0;
  uint64_t hits = 0;
  double tracer_cpu_s = 0;  // processor time of the recording process since it began
};

struct TopModel {
  int64_t end_unix_ns = 0;  // of the window
  int64_t window_ns = 0;
  std::string target;  // "PID 4711 python3"
  size_t processes = 0;
  std::string torch_version;
  std::string tier;
  std::string rank;  // "0/8"; empty where no rank is known
  // False: no steps were found, and all figures are those of one second.
  bool are_steps = false;
  double steps_per_s = 0;
  int64_t median_step_ns = 0;
  int64_t p99_step_ns = 0;
  std::vector<TopStep> steps;  // in order
  bool is_guess = false;       // whether the choice of steps is a guess
  std::optional<Pid> driver;   // the process whose steps they are
  std::vector<TopPart> parts;  // the largest first
  Verdict verdict;
  std::vector<TopDevice> devices;
  TopCost cost;
  uint64_t lost = 0;  // records in the window
  bool has_loss = false;
  std::vector<TopTable> tables = std::vector<TopTable>(kTopViews);  // by TopView

  const TopTable& table(TopView view) const { return tables[static_cast<size_t>(view)]; }
};

// Chosen threads by PID and TID. An empty set stands for all threads.
using TopThreads = std::set<std::pair<uint32_t, uint32_t>>;

// Builds the model of one window. The aggregates must be made with
// AggregateOptions::sums_all_steps. `threads`: operators, Python functions and waits are shown for
// these threads alone.
TopModel BuildTopModel(const Timeline& timeline, const Aggregates& aggregates,
                       const TopThreads& threads);

// Turns sums over the window into figures per step.
struct TopScale {
  double per = 1;  // the number of steps or, without steps, of seconds
  double Ms(int64_t ns) const { return static_cast<double>(ns) * 1e-6 / per; }
  double Count(int64_t count) const { return static_cast<double>(count) / per; }
};

// Fills the tables of a model (top_tables.cc).
void AddTopTables(const Timeline& timeline, const Aggregates& aggregates, const TopThreads& threads,
                  const TopScale& scale, TopModel* model);

}  // namespace proftrace
