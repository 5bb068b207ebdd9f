#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "symbols/process.h"
#include "userspace/cli/commands.h"
#include "userspace/cli/parse.h"
#include "userspace/patch/clean_family.h"

namespace proftrace {
namespace {

// The first error ends the program; others are told here.
void KeepFirst(absl::Status status, absl::Status* first) {
  if (first->ok()) {
    *first = std::move(status);
  } else if (!status.ok()) {
    std::fprintf(stderr, "proftrace: %s\n", std::string(status.message()).c_str());
  }
}

absl::Status RunClean(const std::vector<uint32_t>& pids) {
  absl::Status first;
  for (const uint32_t pid : pids) {
    if (absl::Status status = CheckIsNoThread(Pid{pid}); !status.ok()) {
      KeepFirst(std::move(status), &first);
      continue;
    }
    const std::vector<CleanedProcess> family = CleanFamily(Pid{pid});
    bool is_found = false;
    bool has_failed = false;
    for (const CleanedProcess& one : family) {
      is_found = is_found || one.is_found;
      has_failed = has_failed || !one.status.ok();
      if (one.is_found) {
        std::printf("PID %u: %zu jumps and %llu bytes of memory removed\n", Raw(one.pid),
                    one.removed.jumps, static_cast<unsigned long long>(one.removed.bytes));
      }
      KeepFirst(one.status, &first);
    }
    if (!is_found && !has_failed) std::printf("nothing is left in PID %u\n", pid);
    std::fflush(stdout);
  }
  return first;
}

}  // namespace

void AddCleanCommand(CLI::App& app, Action* action) {
  auto pids = std::make_shared<std::vector<uint32_t>>();
  CLI::App* clean = app.add_subcommand(
      "clean",
      "Take away what a killed proftrace has left in a process and its children: jumps in its code "
      "and\nmemory (--tier patch). The job goes on meanwhile, and does not need it to go on.\n"
      "Example: sudo proftrace clean -p 4711");
  clean->add_option("-p,--pid", *pids, "the process; may be given several times")
      ->required()
      ->check(WhyNoPid);
  clean->callback([pids, action] { *action = [pids] { return RunClean(*pids); }; });
}

}  // namespace proftrace
