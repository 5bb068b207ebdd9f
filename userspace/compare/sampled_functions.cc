#include "userspace/compare/sampled_functions.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "userspace/why/sample_looks.h"

namespace proftrace {
namespace {

using LooksByBatch = std::vector<int64_t>;

std::string NameOf(const SampleFunction& function) { return function.file + ": " + function.name; }

// Returns the functions that a look is of.
std::set<std::string> FunctionsOf(const Timeline& timeline, const Sample& sample) {
  std::set<std::string> functions;
  const std::vector<const SampleFrame*> frames = PythonFramesOf(timeline, sample.frame);
  for (const SampleFrame* frame : frames) {
    const SampleFunction& function = timeline.sample_function(*frame);
    const bool is_own = IsOwn(function) && function.name != "<module>";
    if (is_own || frame == frames.front()) functions.insert(NameOf(function));
  }
  return functions;
}

}  // namespace

std::vector<NamedTime> ProfileFunctions(const Timeline& timeline, const StepParts& parts,
                                        const Batches& batches) {
  std::map<std::string, LooksByBatch> looks_of;
  int64_t all = 0;
  for (const Sample& sample : timeline.samples()) {
    if (sample.thread != parts.thread) continue;
    const std::set<std::string> functions = FunctionsOf(timeline, sample);
    for (uint32_t i = 0; i < sample.count; ++i) {
      const PartMoment* const moment =
          parts.At(sample.time_ns + static_cast<int64_t>(i) * sample.period_ns);
      if (moment == nullptr) continue;
      ++all;
      for (const std::string& name : functions) {
        LooksByBatch& looks = looks_of[name];
        looks.resize(batches.count());
        ++looks[batches.Of(moment->step)];
      }
    }
  }
  if (all < kFewestSamples) return {};
  const int64_t look_ns = parts.total_ns / all;
  const auto steps = static_cast<double>(std::max<size_t>(batches.steps(), 1));
  std::vector<NamedTime> functions;
  for (auto& [name, looks] : looks_of) {
    NamedTime function{.name = name};
    int64_t sum = 0;
    for (int64_t& count : looks) {
      sum += count;
      count *= look_ns;
    }
    function.total_ns = sum * look_ns;
    function.time = batches.Mean(looks);
    if (function.time.error_ns) {
      // Looks are few, so that stretches can be alike by chance.
      const double share = static_cast<double>(sum) / static_cast<double>(all);
      const double by_chance = std::sqrt(static_cast<double>(sum) * (1 - share));
      function.time.error_ns =
          std::max(*function.time.error_ns, by_chance * static_cast<double>(look_ns) / steps);
    }
    functions.push_back(std::move(function));
  }
  return functions;
}

}  // namespace proftrace
