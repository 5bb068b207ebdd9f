// The program plan_dump shows what proftrace would probe in a running process or in one library. It
// is for developers and tests.
//   plan_dump PID [CACHE_DIRECTORY]     plan_dump --shapes PID [CACHE_DIRECTORY]
//   plan_dump --schemas PID [CACHE_DIRECTORY]     plan_dump LIBRARY.so
//   plan_dump --known LIBRARY.so        plan_dump --check-known LIBRARY.so
//   plan_dump --patch PID [CACHE_DIRECTORY]     plan_dump --windows PID [CACHE_DIRECTORY]
#include <absl/strings/numbers.h>
#include <fcntl.h>

#include <chrono>
#include <cstdio>
#include <iterator>
#include <map>
#include <string>

#include "symbols/plan/plan_dump_known.h"
#include "symbols/plan/plan_dump_patches.h"
#include "symbols/plan/planner.h"
#include "symbols/torch/module_analysis.h"
#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void PrintGaps(const std::vector<PlanGap>& gaps) {
  constexpr size_t kMost = 30;
  for (size_t i = 0; i < gaps.size() && i < kMost; ++i) {
    std::printf("gap: %s: %s\n", gaps[i].feature.c_str(), gaps[i].reason.c_str());
  }
  if (gaps.size() > kMost) std::printf("gap: … %zu more\n", gaps.size() - kMost);
}

// Prints the operators whose inputs need a probe of their own at the entry.
void PrintInputProbes(const ProbePlan& plan) {
  std::printf("signatures of inputs: %zu\n", plan.signatures.size());
  for (const ModulePlan& module : plan.modules) {
    for (const ProbePoint& point : module.points) {
      if ((point.cookie >> 16 & 0xff) != abi::PT_ROLE_INPUTS_BEGIN) continue;
      std::printf("  inputs at the entry of %s\n",
                  plan.sites[point.cookie & 0xffff].symbol.c_str());
    }
  }
}

int DumpProcess(Pid pid, const std::string& cache, bool shapes) {
  const auto start = Clock::now();
  PlanOptions options{cache};
  options.record_shapes = shapes;
  const auto plan = BuildProbePlan(pid, options);
  const double seconds = SecondsSince(start);
  if (!plan.ok()) {
    std::fprintf(stderr, "plan_dump: %s\n", std::string(plan.status().message()).c_str());
    return static_cast<int>(ExitCodeOf(plan.status()));
  }
  std::printf("torch %s (%s), python %s, planned in %.3f s%s\n", plan->torch_version.c_str(),
              plan->torch_build_id.c_str(), plan->python_version.c_str(), seconds,
              plan->from_cache ? " from the cache" : "");
  std::printf(
      "sites %zu, operators probed %u, operators known %zu, not listed %u, PyNode vtable %#lx\n",
      plan->sites.size() - 1, plan->operator_count, plan->operators.size(),
      plan->unlisted_operators, static_cast<unsigned long>(plan->python_node_vtable));
  std::map<int, int> rules;
  size_t named = 0;
  for (size_t i = 1; i < plan->sites.size(); ++i) {
    ++rules[static_cast<int>(plan->sites[i].exit_rule)];
    named += !plan->sites[i].label.overload_name.empty();
  }
  std::printf("exits: conditional %d, site set %d, return %d; with overload name %zu\n", rules[1],
              rules[2], rules[3], named);
  for (const ModulePlan& module : plan->modules) {
    std::map<int, int> roles;
    for (const ProbePoint& point : module.points)
      ++roles[static_cast<int>(point.cookie >> 16 & 0xff)];
    std::printf("%s %s: %zu points:", module.name.c_str(), module.build_id.c_str(),
                module.points.size());
    for (const auto& [role, count] : roles) std::printf(" role %d: %d", role, count);
    std::printf("\n");
  }
  if (shapes) PrintInputProbes(*plan);
  PrintGaps(plan->gaps);
  return 0;
}

// Prints one schema a line, in the order of the operators' addresses. Says on stderr how many could
// not be read.
int DumpSchemas(Pid pid, const char* cache) {
  const auto plan = BuildProbePlan(pid, PlanOptions{cache});
  if (!plan.ok()) {
    std::fprintf(stderr, "plan_dump: %s\n", std::string(plan.status().message()).c_str());
    return static_cast<int>(ExitCodeOf(plan.status()));
  }
  const auto start = Clock::now();
  const SchemaReading reading = ReadSchemas(pid, *plan, plan->operators);
  std::fprintf(stderr, "read in %.4f s: %zu schemas, %u without, %u unreadable %s\n",
               SecondsSince(start), reading.schemas.size(), reading.without_definition,
               reading.unreadable, reading.refusal.c_str());
  for (const OperatorInfo& info : plan->operators) {
    const auto it = reading.schemas.find(info.address);
    if (it != reading.schemas.end()) {
      std::printf("%s\n", FormatSchema(*it->second).c_str());
    } else {
      std::fprintf(stderr, "none: %s %s\n", info.name.c_str(), info.overload_name.c_str());
    }
  }
  return 0;
}

int DumpPatches(Pid pid, const char* cache, bool lists) {
  const auto plan = BuildProbePlan(pid, PlanOptions{cache});
  if (!plan.ok()) {
    std::fprintf(stderr, "plan_dump: %s\n", std::string(plan.status().message()).c_str());
    return static_cast<int>(ExitCodeOf(plan.status()));
  }
  PrintPatches(*plan, lists);
  return 0;
}

void PrintPlace(const abi::pt_place& place) {
  std::printf(" r%d", place.base);
  if (place.address != 0) std::printf(" %#lx", static_cast<unsigned long>(place.address));
  for (int i = 0; i < place.count && i < PT_PLACE_OFFSETS; ++i) {
    std::printf(" %+d", place.offsets[i]);
    if (place.index != 0 && place.index_step == i) {
      std::printf("+r%d<<%d", place.index - 1, place.index_shift);
    }
  }
}

void PrintRow(const MadeRow& row) {
  std::printf("  row of %.120s: \"%s\"\n", row.symbol.c_str(), row.literal.c_str());
  for (const RowProbe& probe : row.probes) {
    std::printf("    role %d at %#lx handle r%d%+d", probe.role,
                static_cast<unsigned long>(probe.offset), probe.handle_register,
                probe.handle_offset);
    if (probe.place) {
      std::printf(" place");
      PrintPlace(*probe.place);
    }
    if (probe.otherwise) {
      std::printf(" or");
      PrintPlace(*probe.otherwise);
    }
    if (probe.inputs.kind != RowInputKind::kNone) {
      std::printf(" inputs of kind %d", static_cast<int>(probe.inputs.kind));
      for (const abi::pt_place& word : probe.inputs.words) {
        std::printf(",");
        PrintPlace(word);
      }
    }
    std::printf("\n");
  }
}

int DumpLibrary(const char* path) {
  auto file = ElfFile::Open(UniqueFd(open(path, O_RDONLY | O_CLOEXEC)));
  if (!file.ok()) {
    std::fprintf(stderr, "plan_dump: %s: %s\n", path, std::string(file.status().message()).c_str());
    return static_cast<int>(ExitCode::kNoTorch);
  }
  const auto start = Clock::now();
  const ModuleFacts facts = AnalyzeModule(file->get());
  std::printf("%s: analysed in %.3f s, %s strings, Dispatcher %#lx, PyNode vtable %#lx\n", path,
              SecondsSince(start), facts.old_string_abi ? "pre-C++11" : "C++11",
              static_cast<unsigned long>(facts.dispatcher_slot),
              static_cast<unsigned long>(facts.python_node_vtable));
  std::map<std::string, int> counts;
  static constexpr const char* kRoles[] = {
      "operator", "boxed", "evaluate", "node call", "catch", "distributed engine", "collector"};
  static constexpr const char* kRules[] = {"no exit", "conditional", "site set", "return"};
  for (const ProbedFunction& function : facts.functions) {
    const auto number = static_cast<size_t>(function.role);
    const std::string role = number < std::size(kRoles) ? kRoles[number] : "memory or CUDA";
    ++counts[role + ", " + kRules[static_cast<int>(function.exit_rule)]];
    if (function.callbacks.offset != 0) ++counts[role + ", key set known"];
    if (!function.begin_emulated) ++counts[role + ", begin single-stepped"];
    if (function.role == FunctionRole::kOperator) continue;
    std::printf("  %s %s: begin %#lx ends %zu (%s) argument %d stack %d\n", role.c_str(),
                function.symbol.c_str(), static_cast<unsigned long>(function.begin),
                function.ends.size(), kRules[static_cast<int>(function.exit_rule)],
                function.argument, function.stack_argument);
  }
  for (const MadeRow& row : facts.rows) PrintRow(row);
  std::map<int, int> ends;
  for (const RowProbe& probe : facts.row_ends) ++ends[probe.role];
  for (const auto& [role, count] : ends) std::printf("  row ends of role %d: %d\n", role, count);
  for (const RowProbe& probe : facts.row_ends)
    std::printf("  end role %d at %#lx\n", probe.role, static_cast<unsigned long>(probe.offset));
  for (const auto& [what, count] : counts) std::printf("  %s: %d\n", what.c_str(), count);
  PrintGaps(facts.gaps);
  return 0;
}

}  // namespace
}  // namespace proftrace

int main(int argc, char** argv) {
  uint32_t pid = 0;
  if (argc < 2) {
    std::fprintf(
        stderr,
        "usage: plan_dump [--shapes | --schemas | --patch | --windows] PID [CACHE_DIRECTORY] | "
        "plan_dump [--known | --check-known] LIBRARY.so\n");
    return 2;
  }
  if (argc > 2 && std::string_view(argv[1]) == "--schemas" && absl::SimpleAtoi(argv[2], &pid)) {
    return proftrace::DumpSchemas(proftrace::Pid{pid}, argc > 3 ? argv[3] : "");
  }
  const std::string_view option = argv[1];
  if (argc > 2 && option == "--known") return proftrace::WriteKnownPlan(argv[2]);
  if (argc > 2 && option == "--check-known") return proftrace::CheckKnownPlan(argv[2]);
  if (argc > 2 && (option == "--patch" || option == "--windows") &&
      absl::SimpleAtoi(argv[2], &pid)) {
    return proftrace::DumpPatches(proftrace::Pid{pid}, argc > 3 ? argv[3] : "",
                                  option == "--windows");
  }
  const int first = argc > 2 && std::string_view(argv[1]) == "--shapes" ? 2 : 1;
  if (absl::SimpleAtoi(argv[first], &pid)) {
    return proftrace::DumpProcess(proftrace::Pid{pid}, argc > first + 1 ? argv[first + 1] : "",
                                  first == 2);
  }
  return proftrace::DumpLibrary(argv[1]);
}
