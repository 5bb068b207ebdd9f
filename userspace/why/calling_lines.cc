// Finds the lines of Python from which a part of the steps was called, as those of a training loop.
#include <algorithm>
#include <map>
#include <string>
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

// The Python of a stack, the outermost function first, and how many looks found that stack.
struct CallPath {
  std::vector<const SampleFrame*> frames;
  int64_t looks = 0;
};

struct Line {
  int64_t looks = 0;
  bool is_own = false;                    // of the job itself, not of an installed package
  std::map<std::string, int64_t> called;  // looks by the name of the job's own function
};

// Names of files are without the folder in which Python finds modules.
bool IsOwn(const SampleFunction& function) {
  return !function.file.starts_with("torch/") && !Contains(function.file, "/site-packages/") &&
         !Contains(function.file, "/dist-packages/") && !Contains(function.file, "/lib/python3") &&
         !function.file.starts_with("<");
}

CallPath PathTo(const Timeline& timeline, uint32_t innermost, int64_t looks) {
  CallPath path{PythonFramesOf(timeline, innermost), looks};
  std::reverse(path.frames.begin(), path.frames.end());
  return path;
}

std::map<std::string, Line> LinesAt(const Timeline& timeline, const std::vector<CallPath>& paths,
                                    size_t depth) {
  std::map<std::string, Line> lines;
  for (const CallPath& path : paths) {
    if (depth >= path.frames.size()) continue;
    Line& line = lines[SampleLineText(timeline, *path.frames[depth])];
    line.looks += path.looks;
    line.is_own = IsOwn(timeline.sample_function(*path.frames[depth]));
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

std::string CalledText(const std::string& lines) {
  return "By samples, it was at " + lines + " and in what is called there.";
}

}  // namespace

void AddCallingLines(const Case& job, StepPart part, Finding* finding) {
  const Timeline& timeline = job.timeline;
  std::map<uint32_t, int64_t> looks_of;  // by innermost frame
  int64_t all = 0;
  ForEachLook(job, job.parts.thread, TimesOf(job, part), [&](const Sample& sample) {
    ++looks_of[sample.frame];
    ++all;
  });
  if (all < kFewestSamples) return;
  std::vector<CallPath> paths;
  for (const auto& [frame, looks] : looks_of) paths.push_back(PathTo(timeline, frame, looks));
  // The lines where the calls part; where they do not, the innermost one of the job's own.
  std::string told;
  for (size_t depth = 0;; ++depth) {
    const std::map<std::string, Line> lines = LinesAt(timeline, paths, depth);
    const auto most = std::max_element(lines.begin(), lines.end(), [](const auto& a, auto& b) {
      return a.second.looks < b.second.looks;
    });
    if (most == lines.end()) break;
    if (100 * most->second.looks < kCommonPercent * all) {
      const std::string named = NamedLines(lines, all);
      if (!named.empty()) told = named;
      break;
    }
    if (most->second.is_own) told = NamedLines({*most}, all);
    std::erase_if(paths, [&](const CallPath& path) {
      return depth >= path.frames.size() ||
             SampleLineText(timeline, *path.frames[depth]) != most->first;
    });
  }
  // One line that another sentence has named already tells nothing new.
  const std::string line = told.substr(0, std::min(told.rfind(" calling "), told.rfind(" (")));
  const bool is_known =
      !Contains(told, "), ") &&
      std::any_of(finding->evidence.begin(), finding->evidence.end(),
                  [&](const std::string& sentence) { return Contains(sentence, line); });
  if (!told.empty() && !is_known) finding->evidence.push_back(CalledText(told));
}

}  // namespace proftrace
