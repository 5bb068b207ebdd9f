// Sums up a recording by step, so that it can be laid beside another one of the same job when its
// own rows are gone.
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

// Nanoseconds a step.
struct StepTime {
  double mean_ns = 0;
  // The standard error of the mean, by the means of up to kMostBatches stretches of steps that
  // follow each other: steps near each other are alike, and single ones would promise too much.
  // nullopt: there were too few steps to tell.
  std::optional<double> error_ns;

  static constexpr size_t kMostBatches = 10;
  static constexpr size_t kFewestBatches = 4;
};

// A named part of a run that takes time: an operator, a module.
struct NamedTime {
  std::string name;
  StepTime time;
  double calls = 0;          // a step; 0 without steps
  int64_t total_ns = 0;      // in the whole window
  uint64_t total_calls = 0;  // there
};

struct RunProfile {
  std::string host;
  std::string torch_version;
  std::string tier;
  // Options that say what was recorded: "--activities cpu,sched", "--with-stack", ….
  std::vector<std::string> options;
  double overhead_percent = 0;  // that the recording had, by its own estimate
  bool has_loss = false;

  bool are_steps = false;  // false: none were found; only totals are known
  uint64_t steps = 0;
  int64_t window_ns = 0;
  int64_t median_ns = 0;  // of a step
  StepTime step;          // with the time to the next one
  std::array<StepTime, kStepParts> parts;
  PartTimes part_totals{};           // in all steps; without steps, in the window
  std::vector<NamedTime> operators;  // self times of rows of the process, by name
  std::vector<NamedTime> modules;    // forward and backward, without that of modules inside
  bool has_modules = false;          // they were recorded
  Verdict verdict;
};

// Profiles the process whose steps stand for the recording; without steps all of it. nullopt: the
// recording has no thread, or no time. Passes over the spans; memory: some words a name.
std::optional<RunProfile> ProfileRun(const Timeline& timeline, const Aggregates& aggregates);

}  // namespace proftrace
