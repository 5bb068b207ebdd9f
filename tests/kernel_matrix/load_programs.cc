// Loads every set of BPF programs that proftrace's options ask for into the running kernel, and
// says of each which way of attaching there is, or why the kernel does not take it:
// load_programs [NAME...]. Needs no PyTorch. Exit code 1: a set was not taken whole.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "userspace/base/clock.h"
#include "userspace/capture/kernel/bpf_programs.h"
#include "userspace/capture/kernel/sample_programs.h"
#include "userspace/capture/kernel/system_programs.h"

namespace proftrace {
namespace {

struct Verdict {
  bool ok = false;
  std::string text;
};

Verdict LoadOperators(const BpfOptions& options) {
  const auto programs = BpfPrograms::Load(options);
  if (!programs.ok()) return {false, std::string(programs.status().message())};
  const bool inputs = (*programs)->reads_inputs() == options.record_shapes;
  const bool stacks = (*programs)->reads_stacks() == options.with_stack;
  std::string text = (*programs)->api() == UprobeApi::kMulti   ? "uprobe.multi"
                     : (*programs)->api() == UprobeApi::kTrace ? "trace events"
                                                               : "perf events";
  if (!inputs) text += ", without inputs";
  if (!stacks) text += ", without stacks";
  return {inputs && stacks, text};
}

template <typename Programs>
Verdict Taken(const absl::StatusOr<Programs>& programs) {
  return {programs.ok(), programs.ok() ? "" : std::string(programs.status().message())};
}

Verdict LoadSystem(const std::string& activities) {
  const auto programs = SystemPrograms::Load({SystemActivities::FromText(activities)});
  Verdict verdict = Taken(programs);
  if (!programs.ok()) return verdict;
  for (const Unsupported& gap : (*programs)->gaps()) {
    verdict.text += (verdict.text.empty() ? "" : "; ") + gap.feature + ": " + gap.reason;
  }
  return verdict;
}

struct Set {
  std::string name;
  std::function<Verdict()> load;
};

std::vector<Set> Sets() {
  const auto operators = [](bool shapes, bool stacks, bool budget) {
    BpfOptions options;
    options.record_shapes = shapes;
    options.with_stack = stacks;
    options.has_budget = budget;
    return [options] { return LoadOperators(options); };
  };
  std::vector<Set> sets = {
      {"operators", operators(false, false, false)},
      {"operators,shapes", operators(true, false, false)},
      {"operators,stacks", operators(false, true, false)},
      {"operators,shapes,stacks", operators(true, true, false)},
      {"operators,budget", operators(false, false, true)},
      {"samples", [] { return Taken(SamplePrograms::Load(false)); }},
      {"samples,wakers", [] { return Taken(SamplePrograms::Load(true)); }},
  };
  for (const char* activities : {"syscalls", "io", "sched", "faults", "syscalls,io,sched,faults"}) {
    sets.push_back({activities, [activities] { return LoadSystem(activities); }});
  }
  return sets;
}

int Main(const std::vector<std::string>& names) {
  bool all_taken = true;
  for (const Set& set : Sets()) {
    const bool is_wanted =
        names.empty() || std::find(names.begin(), names.end(), set.name) != names.end();
    if (!is_wanted) continue;
    const int64_t begin = MonotonicNs();
    const Verdict verdict = set.load();
    std::printf("%s %s %.1f s %s\n", verdict.ok ? "ok" : "REFUSED", set.name.c_str(),
                static_cast<double>(MonotonicNs() - begin) / 1e9, verdict.text.c_str());
    std::fflush(stdout);
    all_taken = all_taken && verdict.ok;
  }
  return all_taken ? 0 : 1;
}

}  // namespace
}  // namespace proftrace

int main(int argc, char** argv) {
  return proftrace::Main(std::vector<std::string>(argv + 1, argv + argc));
}
