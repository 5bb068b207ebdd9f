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
  bool is_own = false;        // of the job itself, as far as names tell, not of a package
  bool is_of_script = false;  // of the job's script, or of its package
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

// Returns the file of the job's script, or the folder of its package: where the outermost function
// of Python is. Code that Python itself runs on the way there is left out.
std::string ScriptOf(const Timeline& timeline, const CallPath& path) {
  for (const SampleFrame* frame : path.frames) {
    const std::string& file = timeline.sample_function(*frame).file;
    if (file.starts_with("<")) continue;
    const size_t slash = file.find('/');
    return slash == std::string::npos ? file : file.substr(0, slash + 1);
  }
  return "";
}

bool IsOfScript(const Timeline& timeline, const SampleFrame& frame, const std::string& script) {
  const std::string& file = timeline.sample_function(frame).file;
  return script.ends_with('/') ? file.starts_with(script) : !script.empty() && file == script;
}

std::map<std::string, Line> LinesAt(const Timeline& timeline, const std::vector<CallPath>& paths,
                                    size_t depth) {
  std::map<std::string, Line> lines;
  for (const CallPath& path : paths) {
    if (depth >= path.frames.size()) continue;
    Line& line = lines[SampleLineText(timeline, *path.frames[depth])];
    line.looks += path.looks;
    line.is_own = IsOwn(timeline.sample_function(*path.frames[depth]));
    line.is_of_script = IsOfScript(timeline, *path.frames[depth], ScriptOf(timeline, path));
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

// Returns the innermost lines of the job's script in these calls, as NamedLines() does. Libraries
// that run the loop themselves call it back from between their own lines. Empty: nearly all calls
// come through one of them, or hardly any comes through them.
std::string ScriptLines(const Timeline& timeline, const std::vector<CallPath>& paths, int64_t all) {
  std::map<std::string, Line> lines;
  int64_t known = 0;
  for (const CallPath& path : paths) {
    const std::string script = ScriptOf(timeline, path);
    const auto inmost = std::find_if(
        path.frames.rbegin(), path.frames.rend(),
        [&](const SampleFrame* frame) { return IsOfScript(timeline, *frame, script); });
    if (inmost == path.frames.rend() || inmost + 1 == path.frames.rend()) {
      continue;  // its outermost function is in all calls
    }
    lines[SampleLineText(timeline, **inmost)].looks += path.looks;
    known += path.looks;
  }
  const bool is_one = std::any_of(lines.begin(), lines.end(), [all](const auto& line) {
    return 100 * line.second.looks >= kCommonPercent * all;
  });
  return is_one || 4 * known < all ? "" : NamedLines(lines, all);
}

// The lines where calls part; where they do not, the innermost one of the job's own.
struct PartingLines {
  std::string named;
  bool are_of_script = false;  // the one with most looks is
};

PartingLines FindPartingLines(const Timeline& timeline, std::vector<CallPath> paths, int64_t all) {
  PartingLines told;
  for (size_t depth = 0;; ++depth) {
    const std::map<std::string, Line> lines = LinesAt(timeline, paths, depth);
    const auto most = std::max_element(lines.begin(), lines.end(), [](const auto& a, auto& b) {
      return a.second.looks < b.second.looks;
    });
    if (most == lines.end()) return told;
    if (100 * most->second.looks < kCommonPercent * all) {
      std::string named = NamedLines(lines, all);
      if (!named.empty()) told = {std::move(named), most->second.is_of_script};
      return told;
    }
    if (most->second.is_own) told = {NamedLines({*most}, all), most->second.is_of_script};
    std::erase_if(paths, [&](const CallPath& path) {
      return depth >= path.frames.size() ||
             SampleLineText(timeline, *path.frames[depth]) != most->first;
    });
  }
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
  const PartingLines parting = FindPartingLines(timeline, paths, all);
  const std::string& told = parting.named;
  if (told.empty()) return;
  // One line that another sentence has named already tells nothing new.
  const std::string line = told.substr(0, std::min(told.rfind(" calling "), told.rfind(" (")));
  const bool is_known =
      !Contains(told, "), ") &&
      std::any_of(finding->evidence.begin(), finding->evidence.end(),
                  [&](const std::string& sentence) { return Contains(sentence, line); });
  const std::string of_script = parting.are_of_script ? "" : ScriptLines(timeline, paths, all);
  if (is_known && of_script.empty()) return;
  std::string text = "By samples, it was at " + told + " and in what is called there";
  if (!of_script.empty()) text += "; of the script's own lines, at " + of_script;
  finding->evidence.push_back(text + ".");
}

}  // namespace proftrace
