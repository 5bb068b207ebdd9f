// Finds the lines of Python from which a part of the steps was called, as those of a training loop.
#include <absl/strings/ascii.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "userspace/aggregate/sample_text.h"
#include "userspace/base/shown_text.h"
#include "userspace/base/text.h"
#include "userspace/why/rules.h"
#include "userspace/why/sample_looks.h"

namespace proftrace {
namespace {

// A line through which this part of the calls comes is on the way to the lines that differ.
constexpr int64_t kCommonPercent = 90;
// A line with less is not named.
constexpr int64_t kNamedPercent = 10;
constexpr size_t kMostLines = 3;
// A function of the job's own is told of from this part of the steps on, if that is more than any
// finding has, by so much that samples tell.
constexpr double kPlaceShare = 0.3;
constexpr double kPlaceMargin = 0.04;
// The function of torch/autograd/graph.py that enters autograd's engine.
constexpr std::string_view kBackward = "_engine_run_backward";

// The Python of a stack, the outermost function first, and how many looks found that stack.
struct CallPath {
  std::vector<const SampleFrame*> frames;
  int64_t looks = 0;
};

struct Line {
  int64_t looks = 0;
  bool is_own = false;                    // of the job itself, not of an installed package
  bool is_inmost = false;                 // the calls end there
  std::map<std::string, int64_t> called;  // looks by the name of the job's own function
};

// Files of PyTorch whose functions only call others, in any job.
constexpr std::string_view kPassOn[] = {"torch/nn/modules/module.py",
                                        "torch/nn/modules/container.py",
                                        "torch/optim/optimizer.py",
                                        "torch/utils/_contextlib.py",
                                        "torch/_compile.py",
                                        "torch/_dynamo/eval_frame.py",
                                        "torch/_ops.py"};

bool PassesOn(const SampleFunction& function) {
  const bool is_wrapper = function.file == "torch/_tensor.py" && function.name == "wrapped";
  return is_wrapper ||
         std::find(std::begin(kPassOn), std::end(kPassOn), function.file) != std::end(kPassOn);
}

CallPath PathTo(const Timeline& timeline, uint32_t innermost, int64_t looks) {
  CallPath path{PythonFramesOf(timeline, innermost), looks};
  std::erase_if(path.frames, [&](const SampleFrame* frame) {
    return PassesOn(timeline.sample_function(*frame));
  });
  std::reverse(path.frames.begin(), path.frames.end());
  return path;
}

// Returns the lines that the calls come through at that depth. Calls that have ended just before it
// are at the line where they ended.
std::map<std::string, Line> LinesAt(const Timeline& timeline, const std::vector<CallPath>& paths,
                                    size_t depth) {
  std::map<std::string, Line> lines;
  for (const CallPath& path : paths) {
    if (path.frames.empty()) continue;
    const bool has_ended = depth >= path.frames.size();
    const SampleFrame& frame = has_ended ? *path.frames.back() : *path.frames[depth];
    Line& line = lines[SampleLineText(timeline, frame)];
    line.looks += path.looks;
    line.is_own = IsOwn(timeline.sample_function(frame));
    line.is_inmost = has_ended;
    if (depth + 1 >= path.frames.size()) continue;
    const SampleFunction& called = timeline.sample_function(*path.frames[depth + 1]);
    if (IsOwn(called)) line.called[called.name] += path.looks;
  }
  return lines;
}

// Returns "loop.py(30): train (45 %), loop.py(33): train calling snapshot (30 %)": the lines with
// most looks.
std::string NamedLines(const std::map<std::string, Line>& lines, int64_t all) {
  std::vector<std::pair<int64_t, std::string>> most;
  for (const auto& [text, line] : lines) {
    if (100 * line.looks < kNamedPercent * all) continue;
    const auto called = LargestValue(line.called);
    const bool is_named = called != line.called.end() && 2 * called->second > line.looks;
    most.emplace_back(-line.looks, is_named ? text + " calling " + called->first : text);
  }
  std::sort(most.begin(), most.end());
  if (most.size() > kMostLines) most.resize(kMostLines);
  std::string named;
  for (const auto& [looks, text] : most) {
    if (!named.empty()) named += ", ";
    named += ShownText(text) + " (" + PercentText(-looks, all) + ")";
  }
  return named;
}

// Returns whether the outermost function calls another library than PyTorch, as one that has the
// loop of the steps.
bool RunsLoop(const Timeline& timeline, const CallPath& path) {
  if (path.frames.size() < 2) return false;
  const SampleFunction& called = timeline.sample_function(*path.frames[1]);
  return !IsOwn(called) && !called.file.starts_with("torch/");
}

// Returns the innermost lines of the job's own in these calls, as NamedLines() does. Libraries that
// run the loop themselves call the job back from between their own lines. Empty: hardly any call
// comes through such a line.
std::string OwnLines(const Timeline& timeline, const std::vector<CallPath>& paths, int64_t all) {
  std::map<std::string, Line> lines;
  int64_t known = 0;
  for (const CallPath& path : paths) {
    const auto inmost = std::find_if(
        path.frames.rbegin(), path.frames.rend(),
        [&](const SampleFrame* frame) { return IsOwn(timeline.sample_function(*frame)); });
    if (inmost == path.frames.rend()) continue;
    // The line at which the outermost function has a library run the loop is in all calls.
    if (inmost + 1 == path.frames.rend() && RunsLoop(timeline, path)) continue;
    lines[SampleLineText(timeline, **inmost)].looks += path.looks;
    known += path.looks;
  }
  return 4 * known < all ? "" : NamedLines(lines, all);
}

// The lines where calls part; where they do not, the innermost one of the job's own.
struct PartingLines {
  std::string named;
  bool are_own = false;  // the one with most looks is the job's own
};

PartingLines FindPartingLines(const Timeline& timeline, std::vector<CallPath> paths, int64_t all) {
  PartingLines told;
  for (size_t depth = 0;; ++depth) {
    const std::map<std::string, Line> lines = LinesAt(timeline, paths, depth);
    const auto most = std::max_element(lines.begin(), lines.end(), [](const auto& a, auto& b) {
      return a.second.looks < b.second.looks;
    });
    if (most == lines.end()) return told;
    const bool is_common = 100 * most->second.looks >= kCommonPercent * all;
    if (is_common && most->second.is_inmost) return told;
    if (!is_common) {
      std::string named = NamedLines(lines, all);
      if (!named.empty()) told = {std::move(named), most->second.is_own};
      return told;
    }
    if (most->second.is_own) told = {NamedLines({*most}, all), true};
    std::erase_if(paths, [&](const CallPath& path) {
      return depth >= path.frames.size() ||
             SampleLineText(timeline, *path.frames[depth]) != most->first;
    });
  }
}

// Returns "38 % of it was in torch/nn/modules/linear.py(130): forward": the innermost function of
// Python that most calls come from, if it is a quarter of them; empty: there is none. The one that
// starts the backward pass says nothing.
std::string InmostText(const Timeline& timeline, const std::vector<CallPath>& paths, int64_t all) {
  std::map<std::string, int64_t> looks_of;
  for (const CallPath& path : paths) {
    if (path.frames.empty()) continue;
    const SampleFunction& function = timeline.sample_function(*path.frames.back());
    if (function.name != kBackward) looks_of[SampleFunctionText(function)] += path.looks;
  }
  const auto most = LargestValue(looks_of);
  if (most == looks_of.end() || 4 * most->second < all) return "";
  return PercentText(most->second, all) + " of it was in " + ShownText(most->first);
}

// Returns "it" for "It", "that thread" for "That thread", and "PID 7" as it is.
std::string InSentence(std::string who) {
  if (who.size() > 1 && absl::ascii_islower(static_cast<unsigned char>(who[1]))) {
    who[0] = absl::ascii_tolower(static_cast<unsigned char>(who[0]));
  }
  return who;
}

// Adds the lines from which what `thread` did in these times was called. `who`: its name in the
// sentence; `in_operators`: it was in operators, of which the functions that call them tell more.
void AddLines(const Case& job, const TimesByThread& threads, const std::string& who,
              bool in_operators, Finding* finding) {
  const Timeline& timeline = job.timeline;
  std::map<uint32_t, int64_t> looks_of;  // by innermost frame
  int64_t all = 0;
  ForEachLook(job, threads, [&](const Sample& sample) {
    ++looks_of[sample.frame];
    ++all;
  });
  if (all < kFewestSamples) return;
  std::vector<CallPath> paths;
  for (const auto& [frame, looks] : looks_of) paths.push_back(PathTo(timeline, frame, looks));
  const PartingLines parting = FindPartingLines(timeline, paths, all);
  const std::string& told = parting.named;
  if (told.empty()) return;
  // One line that another sentence has named already tells nothing new.
  const std::string line = told.substr(0, std::min(told.rfind(" calling "), told.rfind(" (")));
  const bool is_known =
      !Contains(told, "), ") &&
      std::any_of(finding->evidence.begin(), finding->evidence.end(),
                  [&](const std::string& sentence) { return Contains(sentence, line); });
  const std::string own = parting.are_own ? "" : OwnLines(timeline, paths, all);
  if (is_known && own.empty()) return;
  std::string text =
      "By samples, " + InSentence(who) + " was at " + told + " and in what is called there";
  if (!own.empty()) text += "; of the job's own lines, at " + own;
  if (in_operators && !parting.are_own) {
    const std::string inmost = InmostText(timeline, paths, all);
    if (!inmost.empty()) text += "; " + inmost + " itself";
  }
  finding->evidence.push_back(text + ".");
}

}  // namespace

void AddCallingLines(const Case& job, StepPart part, Finding* finding) {
  AddLines(job, {{job.parts.thread, TimesOf(job, part)}}, "It", part == StepPart::kOperators,
           finding);
}

PythonSource AddPlaces(const Case& job, const TimesByThread& threads, const std::string& who,
                       Finding* finding) {
  const PythonSource source = AddPython(job, threads, who, finding);
  if (source == PythonSource::kSamples) {
    AddLines(job, threads, who, /*in_operators=*/false, finding);
  }
  return source;
}

PythonSource AddPlaces(const Case& job, StepPart part, Finding* finding) {
  return AddPlaces(job, {{job.parts.thread, TimesOf(job, part)}}, "It", finding);
}

std::string OwnPlaceText(const Case& job, int64_t largest_ns) {
  const Timeline& timeline = job.timeline;
  std::map<std::string, int64_t> looks_of;  // by function
  int64_t all = 0;
  ForEachLook(job, job.parts.intervals, [&](const Sample& sample) {
    ++all;
    std::set<std::string> seen;  // a function may call itself
    for (const SampleFrame* frame : PythonFramesOf(timeline, sample.frame)) {
      const SampleFunction& function = timeline.sample_function(*frame);
      if (!IsOwn(function) || function.name == "<module>") continue;
      std::string name = SampleFunctionText(function);
      if (seen.insert(name).second) ++looks_of[std::move(name)];
    }
  });
  if (all < kFewestSamples) return "";
  // What nearly all time is in is the loop itself.
  std::erase_if(looks_of, [all](const auto& function) {
    return 100 * function.second >= kCommonPercent * all;
  });
  const auto most = LargestValue(looks_of);
  if (most == looks_of.end()) return "";
  const double share = static_cast<double>(most->second) / static_cast<double>(all);
  const double largest = static_cast<double>(largest_ns) / static_cast<double>(job.parts.total_ns);
  if (share < kPlaceShare || share < largest + kPlaceMargin) return "";
  return "Of all places " + ShownText(most->first) +
         " has most, with what it calls: " + PercentText(most->second, all) +
         " of the samples, whose time is spread over several of these findings.";
}

}  // namespace proftrace
