// What else watches the job while it is recorded: a profiler or a debugger that the job itself has
// switched on. It makes operators and Python slower, and nothing in their rows tells why.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "userspace/base/shown_text.h"
#include "userspace/base/text.h"
#include "userspace/why/rules.h"
#include "userspace/why/sample_looks.h"

namespace proftrace {
namespace {

// A watcher with a smaller part of the samples is not worth a sentence.
constexpr int64_t kLeastPercent = 3;

struct Watcher {
  std::string_view name;
  // Begins of the names of its native functions; of the names of its files, without folders; and
  // parts of the paths of its files in Python. Empty: it has no such mark.
  std::array<std::string_view, 3> functions;
  std::string_view library;
  std::array<std::string_view, 2> paths;
};

constexpr std::array<Watcher, 4> kWatchers = {{
    {"torch.profiler",
     {"torch::profiler::impl::", "torch::autograd::profiler::", "libkineto::"},
     "",
     {"torch/profiler/", "torch/autograd/profiler_util.py"}},
    {"cProfile", {}, "_lsprof.", {}},
    {"coverage", {}, "tracer.", {"/coverage/"}},
    {"a debugger (debugpy)", {}, "pydevd", {"pydevd", "/debugpy/"}},
}};

// torch.profiler.record_function() marks a range, whether a profiler is on or not.
constexpr std::string_view kRange = "torch::autograd::profiler::record_function";

template <typename Marks>
bool HasBegin(std::string_view text, const Marks& marks) {
  return std::any_of(marks.begin(), marks.end(), [text](std::string_view mark) {
    return !mark.empty() && text.starts_with(mark);
  });
}

bool IsOf(const Watcher& watcher, const SampleFunction& function) {
  if (function.kind == SampleFrameKind::kPython) {
    return std::any_of(watcher.paths.begin(), watcher.paths.end(), [&](std::string_view path) {
      return !path.empty() && Contains(function.file, path);
    });
  }
  if (function.kind != SampleFrameKind::kNative) return false;
  const std::array<std::string_view, 1> library = {watcher.library};
  return HasBegin(LibraryOf(function), library) ||
         (HasBegin(function.name, watcher.functions) && !function.name.starts_with(kRange));
}

// Returns the watcher that the stack is in, an index into kWatchers; kWatchers.size(): in none.
size_t WatcherIn(const Timeline& timeline, uint32_t innermost) {
  for (uint32_t frame = innermost; frame != 0; frame = timeline.sample_frames()[frame].parent) {
    const SampleFunction& function = timeline.sample_function(timeline.sample_frames()[frame]);
    for (size_t i = 0; i < kWatchers.size(); ++i) {
      if (IsOf(kWatchers[i], function)) return i;
    }
  }
  return kWatchers.size();
}

}  // namespace

std::string WatcherRemark(const Case& job) {
  if (job.parts.intervals.empty()) return "";
  const TimeIntervals all_steps = {
      {job.parts.intervals.front().first, job.parts.intervals.back().second}};
  std::array<int64_t, kWatchers.size()> looks{};
  int64_t all = 0;
  ForEachLook(job, all_steps, [&](const Sample& sample) {
    ++all;
    const size_t watcher = WatcherIn(job.timeline, sample.frame);
    if (watcher < kWatchers.size()) ++looks[watcher];
  });
  const auto most = std::max_element(looks.begin(), looks.end());
  if (all < kFewestSamples || 100 * *most < kLeastPercent * all) return "";
  const std::string name(kWatchers[static_cast<size_t>(most - looks.begin())].name);
  return "The job itself has " + name + " switched on: its code is in " + PercentText(*most, all) +
         " of the samples, and what it watches takes longer, too.";
}

}  // namespace proftrace
