// Finds the function of Python in which a thread was in a part of the steps.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "userspace/aggregate/python_moments.h"
#include "userspace/aggregate/python_text.h"
#include "userspace/aggregate/sample_text.h"
#include "userspace/base/shown_text.h"
#include "userspace/base/text.h"
#include "userspace/why/rules.h"
#include "userspace/why/sample_looks.h"

namespace proftrace {
namespace {

// A function that takes less than this part of the time does not stand for it. Stacks tell of less,
// because a function that calls operators often has its time in theirs.
constexpr int64_t kLeastPartOfSamples = 5;
constexpr int64_t kLeastPartOfStacks = 10;
constexpr size_t kMostOfMany = 3;

// A function that was running, or called the one that was.
struct Caller {
  int64_t count = 0;
  size_t depth = 0;  // of the deepest call
};

struct PythonPlaces {
  std::map<std::string, int64_t> by_function;  // ns, or looks of samples
  // What follows is of samples.
  std::map<std::string, std::map<std::string, int64_t>> lines;  // by function
  std::map<std::string, Caller> callers;
  int64_t all = 0;
  int64_t waiting = 0;     // of samples
  int64_t collecting = 0;  // of samples: Python's garbage collector ran
  bool are_samples = false;
};

// Adds a look at a stack to the functions of Python in it.
void AddStack(const Timeline& timeline, uint32_t innermost, PythonPlaces* places) {
  const std::vector<const SampleFrame*> frames = PythonFramesOf(timeline, innermost);
  if (frames.empty()) return;
  const auto name_of = [&](const SampleFrame& at) {
    return ShownText(SampleFunctionText(timeline.sample_function(at)));
  };
  const std::string running = name_of(*frames.front());
  ++places->by_function[running];
  ++places->lines[running][ShownText(SampleLineText(timeline, *frames.front()))];
  std::set<std::string> seen;  // a function may call itself
  for (size_t i = 0; i < frames.size(); ++i) {
    std::string name = name_of(*frames[i]);
    Caller& caller = places->callers[name];
    caller.depth = std::max(caller.depth, frames.size() - i);
    if (seen.insert(std::move(name)).second) ++caller.count;
  }
}

// Returns whether Python runs in this look, and not an operator that Python called: there is no
// function of PyTorch inside of the innermost one of Python.
bool RunsPython(const Timeline& timeline, const Sample& sample) {
  for (uint32_t frame = sample.frame; frame != 0; frame = timeline.sample_frames()[frame].parent) {
    const SampleFunction& function = timeline.sample_function(timeline.sample_frames()[frame]);
    if (function.kind == SampleFrameKind::kPython) return true;
    if (function.kind == SampleFrameKind::kNative && IsOfTorch(LibraryOf(function))) {
      return false;
    }
  }
  return false;
}

template <size_t kCount>
bool IsOneOf(const std::string& name, const std::string_view (&names)[kCount]) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// Returns whether Python's garbage collector runs in this look, called by the innermost function of
// Python. Most interpreters have no symbols of the collector: there it is what functions without a
// name call in the functions that make objects, and that otherwise call at most one such function
// (Objects/typeobject.c and Modules/gcmodule.c of 3.8 to 3.11; later ones collect elsewhere).
bool IsCollecting(const Timeline& timeline, const Sample& sample) {
  static constexpr std::string_view kCollectors[] = {"gc_collect_main", "gc_collect_region",
                                                     "deduce_unreachable"};
  static constexpr std::string_view kMakers[] = {"_PyObject_GC_New", "_PyObject_GC_NewVar",
                                                 "_PyObject_GC_Malloc", "PyType_GenericAlloc"};
  constexpr size_t kCollectorDepth = 2;
  size_t nameless = 0;
  for (uint32_t frame = sample.frame; frame != 0; frame = timeline.sample_frames()[frame].parent) {
    const SampleFunction& function = timeline.sample_function(timeline.sample_frames()[frame]);
    if (function.kind == SampleFrameKind::kPython) return false;
    if (IsOneOf(function.name, kCollectors)) return true;
    if (IsOneOf(function.name, kMakers)) return nameless >= kCollectorDepth;
    nameless = function.name.empty() ? nameless + 1 : 0;
  }
  return false;
}

PythonPlaces PlacesOfSamples(const Case& job, const TimesByThread& threads) {
  PythonPlaces places;
  places.are_samples = true;
  ForEachLook(job, threads, [&](const Sample& sample) {
    ++places.all;
    places.waiting += IsWaiting(sample);
    if (IsCollecting(job.timeline, sample)) ++places.collecting;
    AddStack(job.timeline, sample.frame, &places);
  });
  return places;
}

// Adds the time of each function of Python in these times. `in_python`: the thread's, in order.
void AddMoments(const Timeline& timeline, const std::vector<PythonMoment>& in_python,
                const TimeIntervals& times, PythonPlaces* places) {
  auto at = in_python.begin();
  for (const auto& [start_ns, end_ns] : times) {
    places->all += end_ns - start_ns;
    while (at != in_python.end() && at->end_ns <= start_ns) ++at;
    for (auto of = at; of != in_python.end() && of->start_ns < end_ns; ++of) {
      const int64_t ns = std::min(of->end_ns, end_ns) - std::max(of->start_ns, start_ns);
      places->by_function[ShownText(PythonFrameText(timeline, of->frame))] += ns;
    }
  }
}

PythonPlaces PlacesOfStacks(const Case& job, const TimesByThread& threads) {
  std::map<ThreadIndex, PythonMoments> rows;  // made in one pass, because there may be many threads
  const PythonRows& python = job.aggregates.python_rows;
  for (uint32_t i = 0; i < python.size(); ++i) {
    const auto& row = python.at(i);
    if (threads.contains(row.thread)) rows[row.thread].OnRow(row);
  }
  PythonPlaces places;
  for (const auto& [thread, times] : threads) {
    AddMoments(job.timeline, rows[thread].Take(), times, &places);
  }
  return places;
}

// Returns the function with the line that it mostly was at, if there is one.
std::string PlaceText(const PythonPlaces& places, const std::string& function) {
  const auto lines = places.lines.find(function);
  if (lines == places.lines.end()) return function;
  const auto most = LargestValue(lines->second);
  return 2 * most->second > places.by_function.at(function) ? most->first : function;
}

// Returns a sentence on time that is spread over so many functions that none stands for it: those
// with the most, and the innermost one in whose calls more than half of it was.
std::string SpreadText(const PythonPlaces& places, const std::string& who) {
  std::vector<std::pair<int64_t, std::string>> most;
  for (const auto& [function, count] : places.by_function) most.emplace_back(-count, function);
  std::sort(most.begin(), most.end());
  std::string text = who + " was in " + CountText(most.size(), "function", "functions") +
                     ", by samples; the most in ";
  for (size_t i = 0; i < std::min(kMostOfMany, most.size()); ++i) {
    if (i > 0) text += ", ";
    text +=
        PlaceText(places, most[i].second) + " (" + PercentText(-most[i].first, places.all) + ")";
  }
  text += ".";
  const std::pair<const std::string, Caller>* inmost = nullptr;
  for (const auto& function : places.callers) {
    // All of a script is in its <module>.
    if (2 * function.second.count <= places.all || function.first.ends_with(": <module>")) continue;
    if (inmost == nullptr || function.second.depth > inmost->second.depth) inmost = &function;
  }
  if (inmost != nullptr) {
    text += " " + PercentText(inmost->second.count, places.all) + " of it was in " + inmost->first +
            " and what that calls.";
  }
  return text;
}

}  // namespace

PythonSource AddPython(const Case& job, StepPart part, Finding* finding) {
  return AddPython(job, {{job.parts.thread, TimesOf(job, part)}}, "It", finding);
}

double AddCalledPython(const Case& job, StepPart part, Finding* finding) {
  int64_t all = 0;
  PythonPlaces places;
  std::map<std::string, int64_t> own_lines;
  ForEachLook(job, TimesOf(job, part), [&](const Sample& sample) {
    if (sample.native_cut) return;
    ++all;
    if (!RunsPython(job.timeline, sample)) return;
    ++places.all;
    AddStack(job.timeline, sample.frame, &places);
    for (const SampleFrame* frame : PythonFramesOf(job.timeline, sample.frame)) {
      if (!IsOwn(job.timeline.sample_function(*frame))) continue;
      ++own_lines[ShownText(SampleLineText(job.timeline, *frame))];
      break;
    }
  });
  if (all < kFewestSamples || 5 * places.all < all) return 0;
  const auto most = LargestValue(places.by_function);
  finding->evidence.push_back(
      PercentText(places.all, all) + " of the samples there are in Python that operators call" +
      (2 * most->second < places.all ? ", in several functions; most is in " : ": most is in ") +
      PlaceText(places, most->first) + ", " + PercentText(most->second, places.all) + " of these.");
  const auto own = LargestValue(own_lines);
  if (own != own_lines.end() && 2 * own->second > places.all &&
      !Contains(finding->evidence.back(), own->first)) {
    finding->evidence.push_back("Of the job's own lines, that is at " + own->first + " (" +
                                PercentText(own->second, places.all) + ").");
  }
  if (Contains(most->first, "traceback.py(") || Contains(most->first, "linecache.py(")) {
    finding->evidence.emplace_back(
        "Stacks are written down for each operator, as torch.autograd.set_detect_anomaly(True) "
        "has it.");
  }
  return static_cast<double>(places.all) / static_cast<double>(all);
}

void AddPythonAround(const Case& job, int32_t call, Finding* finding) {
  PythonPlaces places;
  places.are_samples = true;
  ForEachLook(job, job.parts.intervals, [&](const Sample& sample) {
    if (sample.call != call) return;
    ++places.all;
    AddStack(job.timeline, sample.frame, &places);
  });
  const auto most = LargestValue(places.by_function);
  if (places.all < kFewestSamples || most == places.by_function.end()) return;
  if (2 * most->second < places.all) return;
  finding->evidence.push_back("Samples at such calls were in " + PlaceText(places, most->first) +
                              " for " + PercentText(most->second, places.all) + ".");
}

PythonSource AddPython(const Case& job, const TimesByThread& threads, const std::string& who,
                       Finding* finding) {
  PythonPlaces places = PlacesOfSamples(job, threads);
  if (places.all < kFewestSamples) places = PlacesOfStacks(job, threads);
  const auto most = LargestValue(places.by_function);
  if (most == places.by_function.end()) {
    return AddNativePlace(job, threads, who, finding) ? PythonSource::kSamples
                                                      : PythonSource::kNone;
  }
  const int64_t least_part = places.are_samples ? kLeastPartOfSamples : kLeastPartOfStacks;
  if (least_part * most->second < places.all) {
    if (!places.are_samples) return PythonSource::kNone;
    finding->evidence.push_back(SpreadText(places, who));
    return PythonSource::kSamples;
  }
  if (2 * places.collecting > places.all) {
    finding->evidence.push_back(PercentText(places.collecting, places.all) +
                                " of that, by samples, Python's garbage collector runs; "
                                "--python-gc tells how often.");
  }
  const std::string share = PercentText(most->second, places.all);
  if (!places.are_samples) {
    finding->evidence.push_back("Operators around that time were called in " + most->first + " (" +
                                share + " of it). The function that took the time may be " +
                                "another one, which --sample 99Hz would show.");
    return PythonSource::kStacks;
  }
  finding->evidence.push_back(who + " was in " + PlaceText(places, most->first) + " for " + share +
                              " of that, by samples.");
  if (!job.parts.has_kernel && 2 * places.waiting > places.all) {
    finding->evidence.push_back(PercentText(places.waiting, places.all) +
                                " of the samples there found it waiting, not running.");
  }
  return PythonSource::kSamples;
}

}  // namespace proftrace
