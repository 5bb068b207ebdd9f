// How often the steps of recorded loops (tests/bench/step_streams.py) are found rightly, said to be
// a guess, or wrong without a word: from the loop's begin to its end, and between places in its
// midst that a seed chooses. `--no-backward` leaves out what other threads do for a GPU's tensors.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

#include "userspace/aggregate/steps.h"
#include "userspace/steps/step_finder.h"

namespace proftrace {
namespace {

constexpr int64_t kPauseNs = 500'000'000;
constexpr int kCuts = 4;  // windows in the midst of each loop

struct Loop {
  std::string kind;
  std::string seed;
  std::vector<FoundStep> steps;
  std::vector<StepItem> items;
};

enum class Verdict { kRight, kShifted, kGuess, kWrong, kNone, kCount };

struct Result {
  Verdict verdict = Verdict::kNone;
  size_t found = 0;
  size_t truth = 0;
  double confidence = 0;
  std::string how;
};

std::vector<Loop> Read(const char* path, bool with_backward) {
  std::vector<Loop> loops;
  std::unordered_map<std::string, uint32_t> symbols;
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "L") {
      words >> loops.emplace_back().kind >> loops.back().seed;
    } else if (word == "S") {
      FoundStep step;
      words >> step.start_ns >> step.end_ns;
      loops.back().steps.push_back(step);
    } else if (word == "I") {
      StepItem item;
      std::string kind;
      words >> item.start_ns >> item.end_ns >> kind;
      std::string name;
      std::getline(words >> std::ws, name);
      if (kind == "b" && !with_backward) continue;
      item.symbol = symbols.try_emplace(name, static_cast<uint32_t>(symbols.size())).first->second;
      const size_t dot = kind == "o" ? name.find('.') : std::string::npos;
      const std::string overload = dot == std::string::npos ? "" : name.substr(dot + 1);
      name.resize(std::min(dot, name.size()));
      item.item_class = ClassifyItem(name, overload, kind == "a", kind == "b");
      item.may_be_entering = name == "aten::zeros";
      loops.back().items.push_back(item);
    }
  }
  return loops;
}

// Whether each found step lies in a step of its own, from about its begin on.
bool AreInPlace(const std::vector<FoundStep>& found, const std::vector<FoundStep>& truth) {
  size_t at = 0;
  for (const FoundStep& step : found) {
    const int64_t part_ns = std::max<int64_t>((step.end_ns - step.start_ns) / 4, 1);
    while (at < truth.size() && truth[at].start_ns < step.start_ns - part_ns) ++at;
    if (at == truth.size() || truth[at].start_ns > step.start_ns + part_ns) return false;
    ++at;
  }
  return true;
}

Result Judge(const Loop& loop, size_t begin, size_t end, bool is_whole) {
  const int64_t start_ns = loop.items[begin].start_ns - (is_whole ? kPauseNs : 100);
  const int64_t end_ns =
      is_whole ? loop.items[end - 1].end_ns + kPauseNs : loop.items[end - 1].busy_until_ns() + 100;
  StepFinder finder(1u << 19, start_ns);
  for (size_t i = begin; i < end; ++i) {
    finder.Add(loop.items[i]);
    finder.last()->is_open = loop.items[i].end_ns > end_ns;
  }
  finder.Look(end_ns);
  Result result;
  std::vector<FoundStep> truth;
  for (const FoundStep& step : loop.steps) {
    if (step.start_ns >= start_ns && step.end_ns <= end_ns) truth.push_back(step);
  }
  result.truth = truth.size();
  result.found = finder.count();
  result.confidence = finder.confidence();
  result.how = finder.rule().how;
  const size_t slack = is_whole ? 0 : 1;
  const bool is_right = !loop.steps.empty() && result.found + slack >= result.truth &&
                        result.found <= result.truth + slack;
  if (result.found == 0) {
    result.verdict = truth.size() <= 2 ? Verdict::kRight : Verdict::kNone;
  } else if (is_right) {
    result.verdict = AreInPlace(finder.steps(), loop.steps) ? Verdict::kRight : Verdict::kShifted;
  } else {
    result.verdict = Verdict::kWrong;
  }
  if (result.found > 0 && result.verdict != Verdict::kRight && result.confidence < kGuessBelow) {
    result.verdict = Verdict::kGuess;
  }
  return result;
}

int Main(int argc, char** argv) {
  bool with_backward = true;
  bool is_verbose = false;
  std::string only;
  std::map<std::string, std::map<bool, std::vector<size_t>>> by_kind;
  size_t marked_right = 0;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--no-backward") == 0) with_backward = false;
    if (std::strcmp(argv[i], "--verbose") == 0) is_verbose = true;
    if (std::strncmp(argv[i], "--only=", 7) == 0) only = argv[i] + 7;
    if (argv[i][0] == '-') continue;
    for (const Loop& loop : Read(argv[i], with_backward)) {
      if (loop.items.size() < 8 || (!only.empty() && only != loop.kind)) continue;
      std::mt19937 random(1);
      for (int cut = 0; cut <= kCuts; ++cut) {
        const bool is_whole = cut == 0;
        const size_t size = loop.items.size();
        const size_t begin = is_whole ? 0 : random() % (size / 3);
        const size_t end = is_whole ? size : size - random() % (size / 3);
        const Result result = Judge(loop, begin, end, is_whole);
        std::vector<size_t>& counts = by_kind[loop.kind][is_whole];
        counts.resize(static_cast<size_t>(Verdict::kCount));
        ++counts[static_cast<size_t>(result.verdict)];
        marked_right += result.verdict == Verdict::kRight && result.found > 0 &&
                        result.confidence < kGuessBelow;
        constexpr const char* kNames[] = {"right", "shifted", "guess", "WRONG", "none"};
        if (is_verbose) {
          std::printf("%-8s %s %s %s: %zu of %zu, %.2f, %s\n",
                      kNames[static_cast<size_t>(result.verdict)], loop.kind.c_str(),
                      loop.seed.c_str(), is_whole ? "whole" : "middle", result.found, result.truth,
                      result.confidence, result.how.c_str());
        }
      }
    }
  }
  std::printf("%-22s whole: right shifted guess WRONG none | middle: the same\n", "");
  std::map<bool, std::vector<size_t>> sums;
  by_kind["~ all"];
  for (auto& [kind, by_mode] : by_kind) {
    std::printf("%-22s", kind.c_str());
    for (const bool is_whole : {true, false}) {
      std::vector<size_t>& counts = kind == "~ all" ? sums[is_whole] : by_mode[is_whole];
      counts.resize(static_cast<size_t>(Verdict::kCount));
      sums[is_whole].resize(counts.size());
      for (size_t i = 0; i < counts.size(); ++i) {
        std::printf(" %6zu", counts[i]);
        if (kind != "~ all") sums[is_whole][i] += counts[i];
      }
      std::printf(" |");
    }
    std::printf("\n");
  }
  std::printf("right, but said to be a guess: %zu\n", marked_right);
  return 0;
}

}  // namespace
}  // namespace proftrace

int main(int argc, char** argv) { return proftrace::Main(argc, argv); }
