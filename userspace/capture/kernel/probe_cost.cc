#include "userspace/capture/kernel/probe_cost.h"

#include <fcntl.h>
#include <link.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "bpf/abi/records.h"
#include "symbols/process/process_maps.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/own_path.h"

// A function that begins with a push. It is in assembly, so that no compiler leaves it out or
// reorders it.
extern "C" void proftrace_probe_cost_target();
asm(R"(
  .text
  .globl proftrace_probe_cost_target
  .hidden proftrace_probe_cost_target
  .type proftrace_probe_cost_target, @function
proftrace_probe_cost_target:
  push %rbp
  pop %rbp
  ret
  .size proftrace_probe_cost_target, . - proftrace_probe_cost_target
  .section .note.GNU-stack, "", @progbits
  .text
)");

namespace proftrace {
namespace {

constexpr int kCalls = 14000;
constexpr int kFewestRounds = 7;

double RoundNs(int calls) {
  timespec begin{};
  timespec end{};
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (int i = 0; i < calls; ++i) proftrace_probe_cost_target();
  clock_gettime(CLOCK_MONOTONIC, &end);
  const double ns = static_cast<double>(end.tv_sec - begin.tv_sec) * 1e9 +
                    static_cast<double>(end.tv_nsec - begin.tv_nsec);
  return ns / calls;
}

double MedianRoundNs(int calls, const std::function<void()>& between_rounds) {
  std::vector<double> rounds(static_cast<size_t>(std::max(kFewestRounds, kCalls / calls)));
  for (double& round : rounds) {
    round = RoundNs(calls);
    between_rounds();
  }
  const auto middle = rounds.begin() + static_cast<std::ptrdiff_t>(rounds.size() / 2);
  std::nth_element(rounds.begin(), middle, rounds.end());
  return *middle;
}

struct OwnCode {
  uint64_t address = 0;
  uint64_t file_offset = 0;
};

// Finds the code's offset in the program's file. The first object that dl_iterate_phdr gives is the
// program itself.
int FindOffset(dl_phdr_info* info, size_t, void* data) {
  auto* code = static_cast<OwnCode*>(data);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    const uint64_t start = info->dlpi_addr + header.p_vaddr;
    if (header.p_type != PT_LOAD || code->address < start ||
        code->address >= start + header.p_filesz) {
      continue;
    }
    code->file_offset = code->address - start + header.p_offset;
    return 1;
  }
  return 0;
}

}  // namespace

absl::StatusOr<double> MeasureProbeCost(
    int calls_a_round, const std::function<absl::StatusOr<LinkSet>(const ModulePlan&)>& attach,
    const std::function<void()>& between_rounds) {
  const int calls = std::clamp(calls_a_round, 1, kCalls / kFewestRounds);
  OwnCode code;
  code.address = reinterpret_cast<uint64_t>(&proftrace_probe_cost_target);
  dl_iterate_phdr(FindOffset, &code);
  if (code.file_offset == 0) return Fail(ExitCode::kBug, "cannot find own code in own file");
  ModulePlan module;
  module.name = "proftrace itself";
  module.held = HeldFile::Hold(UniqueFd(open("/proc/self/exe", O_RDONLY | O_CLOEXEC)));
  if (module.held == nullptr) {
    return Fail(ExitCode::kNotPermitted,
                "this user may not read the program's own file, where it measures what a probe "
                "costs: let him, by chmod a+r " +
                    OwnPath());
  }
  const absl::StatusOr<std::vector<Mapping>> mappings =
      ReadMaps(Pid{static_cast<uint32_t>(getpid())});
  if (!mappings.ok()) return mappings.status();
  for (const Mapping& mapping : *mappings) {
    if (code.address >= mapping.start && code.address < mapping.end) {
      module.file = {mapping.device, mapping.inode};
    }
  }
  module.points.push_back(
      ProbePoint{code.file_offset, PT_COOKIE(kProbeCostSite, abi::PT_ROLE_BEGIN, 0, 0)});

  const double without_ns = MedianRoundNs(calls, between_rounds);
  absl::StatusOr<LinkSet> links = attach(module);
  if (!links.ok()) return links.status();
  double with_ns = 0;
  std::thread([&] { with_ns = MedianRoundNs(calls, between_rounds); }).join();
  return std::max(0.0, with_ns - without_ns);
}

}  // namespace proftrace
