// patch_tool PID SECONDS [CYCLES]: puts jumps into a process as tier patch does it, CYCLES times
// for SECONDS each, and prints a line a cycle and how often each operator began and ended.
// patch_tool guarded PID SECONDS [CYCLES]: with a guardian.
// patch_tool killed PID POINT STEP: is killed at each STEPth step of putting jumps there and taking
// them out, from POINT on (kill_points.h). Half of the jumps come later, as in libraries that a
// process maps while it has jumps.
// patch_tool failing PID POINT STEP: the same, but each step fails. Exit codes as parts of a sum:
// it was not attached to (1), got no more jumps (2), could not be left (4).
// patch_tool killed-fork PID POINT STEP, failing-fork PID POINT STEP: the same steps in a child
// that the process has forked meanwhile: "attached" asks for one, whose PID is read from the
// standard input. Nothing is taken out of the process itself. patch_tool clean -p PID [-p PID...]:
// takes away what a killed one has left.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "symbols/plan/planner.h"
#include "tests/support/patch/kill_points.h"
#include "userspace/base/clock.h"
#include "userspace/patch/clean_family.h"
#include "userspace/patch/guardian.h"
#include "userspace/patch/patched_process.h"
#include "userspace/patch/plan_spots.h"

namespace proftrace {
namespace {

constexpr int64_t kLeaseNs = 2'000'000'000;

volatile std::sig_atomic_t is_interrupted = 0;

struct Count {
  uint64_t begins = 0;
  uint64_t ends = 0;
};

bool IsOk(const absl::Status& status) {
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok();
}

absl::StatusOr<std::unique_ptr<PatchedProcess>> AttachTo(Pid pid, const ProbePlan& plan,
                                                         std::vector<PatchSpot> spots) {
  PatchRingOptions ring;
  ring.pid = pid;
  ring.salt = static_cast<uint32_t>(MonotonicNs());
  ring.facts = FactsOf(plan);
  ring.places = plan.places;
  return PatchedProcess::Attach(pid, std::move(spots), ring, [](uint32_t tid) { return tid; });
}

int Run(Pid pid, double seconds, int cycles, PatchGuardian* guardian) {
  std::signal(SIGINT, [](int) { is_interrupted = 1; });
  PlanOptions options;
  options.cache_directory = "/tmp/patch_tool_cache";
  const absl::StatusOr<ProbePlan> plan = BuildProbePlan(pid, options);
  if (!plan.ok()) {
    std::fprintf(stderr, "%s\n", plan.status().ToString().c_str());
    return 1;
  }
  const int64_t begin_ns = MonotonicNs();
  const absl::StatusOr<PlanSpots> spots =
      FindPlanSpots(pid, *plan, plan->places, options.cache_directory);
  if (!spots.ok()) {
    std::fprintf(stderr, "%s\n", spots.status().ToString().c_str());
    return 1;
  }
  std::printf("spots found in %.1f ms\n", static_cast<double>(MonotonicNs() - begin_ns) / 1e6);
  std::map<uint16_t, Count> counts;
  for (int cycle = 0; cycle < cycles; ++cycle) {
    const int64_t start_ns = MonotonicNs();
    if (guardian != nullptr) guardian->Watch(pid);
    auto process = AttachTo(pid, *plan, spots->spots);
    if (!IsOk(process.status())) return 1;
    const int64_t attached_ns = MonotonicNs();
    const auto on_record = [&counts](std::span<const std::byte> bytes) {
      abi::pt_record record{};
      std::memcpy(&record, bytes.data(), sizeof(record));
      if (record.kind == abi::PT_SPAN_BEGIN) ++counts[record.site].begins;
      if (record.kind == abi::PT_SPAN_END) ++counts[record.site].ends;
    };
    PatchRing* reader = (*process)->ring();
    while (!is_interrupted && MonotonicNs() - attached_ns < static_cast<int64_t>(seconds * 1e9)) {
      reader->LetWrite(kLeaseNs);
      if (reader->Drain(on_record) < 1000) usleep(1000);
    }
    reader->Stop();
    reader->Drain(on_record);
    const PatchRingCounts totals = reader->counts();
    const int64_t leaving_ns = MonotonicNs();
    const absl::Status status = (*process)->Detach();
    if (guardian != nullptr && status.ok()) guardian->Forget(pid);
    const PatchReport& report = (*process)->report();
    std::printf(
        "cycle %d: spots %zu left %zu jumps %zu refused %zu; attach %.1f ms "
        "(held %.2f, stop %.2f), detach %.1f ms (stop %.2f); records %lu lost %lu abandoned %lu "
        "damages %lu; %s\n",
        cycle, spots->spots.size(), spots->unpatched.size(), report.jumps, report.refused.size(),
        static_cast<double>(attached_ns - start_ns) / 1e6,
        static_cast<double>(report.held_ns) / 1e6,
        static_cast<double>(report.attach.longest_stop_ns) / 1e6,
        static_cast<double>(MonotonicNs() - leaving_ns) / 1e6,
        static_cast<double>(report.detach.longest_stop_ns) / 1e6,
        static_cast<unsigned long>(totals.records), static_cast<unsigned long>(totals.lost),
        static_cast<unsigned long>(totals.abandoned), static_cast<unsigned long>(totals.damages),
        status.ToString().c_str());
    std::fflush(stdout);
  }
  for (const auto& [site, count] : counts) {
    std::printf("%s %lu %lu\n", plan->sites[site].label.name.c_str(),
                static_cast<unsigned long>(count.begins), static_cast<unsigned long>(count.ends));
  }
  return 0;
}

using AtEachPoint = int(int first, int step, const std::function<void()>& prepare,
                        const std::function<int()>& work);

int GiveAndTake(Pid pid, const ProbePlan& plan, const std::vector<PatchSpot>& spots) {
  const auto half = spots.begin() + static_cast<int64_t>(spots.size() / 2);
  auto process = AttachTo(pid, plan, {spots.begin(), half});
  if (!IsOk(process.status())) return 1;
  const absl::Status more = (*process)->Extend({half, spots.end()}, RecorderTables(plan.places, {}),
                                               0, (*process)->code()->facts());
  (*process)->Adopt();
  return (IsOk(more) ? 0 : 2) + (IsOk((*process)->Detach()) ? 0 : 4);
}

// As one who records does it: a child that gets no ring of its own is made as it was.
int GiveAndTakeFork(const PatchedProcess& parent, Pid child) {
  auto process = PatchedProcess::AttachFork(child, parent, [](uint32_t tid) { return tid; });
  if (IsOk(process.status())) return IsOk((*process)->Detach()) ? 0 : 4;
  RemovedPatches removed;
  return 1 + (IsOk(RemoveLeftPatches(child, &removed).status()) ? 0 : 4);
}

int RunAtPoints(Pid pid, int point, int step, bool of_fork, AtEachPoint at_each_point) {
  PlanOptions options;
  options.cache_directory = "/tmp/patch_tool_cache";
  const absl::StatusOr<ProbePlan> plan = BuildProbePlan(pid, options);
  if (!plan.ok()) return 1;
  const absl::StatusOr<PlanSpots> spots =
      FindPlanSpots(pid, *plan, plan->places, options.cache_directory);
  if (!spots.ok()) return 1;
  if (!of_fork) {
    return at_each_point(
        point, step, [] {}, [&] { return GiveAndTake(pid, *plan, spots->spots); });
  }
  std::unique_ptr<PatchedProcess> parent;
  Pid child{};
  const auto prepare = [&] {
    auto process = AttachTo(pid, *plan, spots->spots);
    if (!IsOk(process.status())) _exit(1);
    parent = *std::move(process);
    parent->ring()->LetWrite(kLeaseNs);
    std::puts("attached");
    std::fflush(stdout);
    char line[32] = {};
    if (read(STDIN_FILENO, line, sizeof(line) - 1) <= 0) _exit(1);
    child = Pid{static_cast<uint32_t>(std::atoi(line))};
  };
  return at_each_point(point, step, prepare, [&] { return GiveAndTakeFork(*parent, child); });
}

int Clean(std::span<char*> words) {
  bool is_found = false;
  for (const char* word : words) {
    if (word[0] == '-') continue;  // -p, and the guardian's --wait
    for (const CleanedProcess& one : CleanFamily(Pid{static_cast<uint32_t>(std::atoi(word))})) {
      if (!one.status.ok()) {
        std::printf("%s\n", one.status.ToString().c_str());
        return 1;
      }
      is_found = is_found || one.is_found;
    }
  }
  std::puts(is_found ? "cleaned" : "nothing left");
  return 0;
}

}  // namespace
}  // namespace proftrace

int main(int argc, char** argv) {
  std::span<char*> words(argv + 1, argv + argc);
  if (words.size() < 2) return 2;
  if (std::strcmp(words[0], "clean") == 0) return proftrace::Clean(words.subspan(1));
  const std::string_view what = words[0];
  const bool fails = what.starts_with("failing");
  if ((fails || what.starts_with("killed")) && words.size() == 4) {
    return proftrace::RunAtPoints(proftrace::Pid{static_cast<uint32_t>(std::atoi(words[1]))},
                                  std::atoi(words[2]), std::atoi(words[3]), what.ends_with("-fork"),
                                  fails ? proftrace::FailAtEachPoint : proftrace::KillAtEachPoint);
  }
  std::unique_ptr<proftrace::PatchGuardian> guardian;
  if (std::strcmp(words[0], "guarded") == 0) {
    guardian = proftrace::PatchGuardian::Start();
    words = words.subspan(1);
  }
  return proftrace::Run(proftrace::Pid{static_cast<uint32_t>(std::atoi(words[0]))},
                        std::atof(words[1]), words.size() > 2 ? std::atoi(words[2]) : 1,
                        guardian.get());
}
