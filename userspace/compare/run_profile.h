// Sums up a recording by step, so that it can be compared with another recording of the same job
// after its own rows were freed.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "userspace/aggregate/aggregates.h"
#include "userspace/model/timeline.h"
#include "userspace/why/finding.h"
#include "userspace/why/step_parts.h"

namespace proftrace {

// A time in nanoseconds per step.
struct StepTime {
  double mean_ns = 0;
  // The standard error of the mean. It is computed from the means of up to kMostBatches stretches
  // of consecutive steps, because neighbouring steps are alike: an error computed from single steps
  // would be too small. nullopt where there were too few steps.
  std::optional<double> error_ns;

  static constexpr size_t kMostBatches = 10;
  static constexpr size_t kFewestBatches = 4;
};

// A named part of a run that takes time: an operator, a module, a function.
struct NamedTime {
  std::string name;
  StepTime time;
  double calls = 0;          // per step; 0 without steps
  int64_t total_ns = 0;      // ns in the whole window
  uint64_t total_calls = 0;  // calls in the whole window
};

struct RunProfile {
  std::string host;
  std::string command;  // the words that started the process, as they can be shown, cut if long
  std::string script;   // the name of the Python file among them, without folders
  std::string torch_version;
  std::string tier;
  // Options that say what was recorded: "--activities cpu,sched", "--with-stack", ….
  std::vector<std::string> options;
  double overhead_percent = 0;  // of the busiest thread where it is known, by its own estimate
  bool has_loss = false;
  // What the recording knows of the kernel: without it, waits, calls and page faults are in the
  // time of the parts around them.
  bool has_waits = false;
  bool has_calls = false;
  bool has_faults = false;

  bool are_steps = false;  // false: no steps were found, and only totals are known
  uint64_t steps = 0;
  int64_t window_ns = 0;
  int64_t median_ns = 0;  // the median duration of a step
  StepTime step;          // includes the time to the next step
  std::array<StepTime, kStepParts> parts;
  PartTimes part_totals{};           // sums over all steps or, without steps, over the window
  std::vector<NamedTime> operators;  // self times of the process's rows, by name
  std::vector<NamedTime> modules;    // forward and backward, without the time of modules inside
  bool has_modules = false;          // whether modules were recorded
  std::vector<NamedTime> functions;  // by samples; see ProfileFunctions()
  bool has_samples = false;
  Verdict verdict;
};

// Profiles the process whose steps stand for the recording, or the whole process where there are no
// steps. Returns nullopt where the recording has no thread, or lasted no time. Passes over all
// spans, and needs a few words of memory per name.
std::optional<RunProfile> ProfileRun(const Timeline& timeline, const Aggregates& aggregates);

}  // namespace proftrace
