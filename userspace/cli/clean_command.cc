#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "symbols/plan/process.h"
#include "userspace/base/exit_status.h"
#include "userspace/cli/commands.h"
#include "userspace/cli/events.h"
#include "userspace/cli/json_schema.h"
#include "userspace/cli/parse.h"
#include "userspace/cli/say.h"
#include "userspace/cli/seccomp_option.h"
#include "userspace/inject/standstill.h"
#include "userspace/inject/stopped_threads.h"
#include "userspace/patch/clean_family.h"
#include "userspace/patch/code_audit.h"

namespace proftrace {
namespace {

// Keeps the first error, which becomes the exit status, and prints any further one.
void KeepFirst(absl::Status status, absl::Status* first) {
  if (first->ok()) {
    *first = std::move(status);
  } else if (!status.ok()) {
    Say("%s", std::string(status.message()).c_str());
  }
}

// The first and the longest pause between two tries, while a debugger holds a process or its
// control group is frozen.
constexpr unsigned kFirstPauseMs = 200;
constexpr unsigned kLastPauseMs = 30'000;

struct CleanArguments {
  std::vector<uint32_t> pids;
  bool waits = false;
  bool json = false;
};

void TellRemoved(Pid pid, const RemovedPatches& removed, bool json) {
  if (json) {
    WriteEvent({{"event", "removed"},
                {"pid", Raw(pid)},
                {"jumps", removed.jumps},
                {"bytes", removed.bytes}});
    return;
  }
  Print("PID %u: %zu jumps and %llu bytes of memory removed\n", Raw(pid), removed.jumps,
        static_cast<unsigned long long>(removed.bytes));
}

void TellNothingLeft(uint32_t pid, bool json) {
  if (json) {
    WriteEvent({{"event", "nothing_left"}, {"pid", pid}});
  } else {
    Print("nothing is left in PID %u\n", pid);
  }
}

// Cleans the processes. `waiting` receives the processes that a debugger traces, or that are
// frozen.
absl::Status RunClean(const std::vector<uint32_t>& pids, bool json,
                      std::vector<uint32_t>* waiting) {
  absl::Status first;
  for (const uint32_t pid : pids) {
    if (absl::Status status = CheckIsNoThread(Pid{pid}); !status.ok()) {
      KeepFirst(std::move(status), &first);
      continue;
    }
    bool is_held = false;
    const std::vector<CleanedProcess> family = CleanFamily(Pid{pid});
    bool is_found = false;
    bool has_failed = false;
    for (const CleanedProcess& one : family) {
      is_found = is_found || one.is_found;
      has_failed = has_failed || !one.status.ok();
      is_held = is_held ||
                (!one.status.ok() && (IsTraced(one.pid) || FindStandstill(one.pid).has_value()));
      if (one.is_found) TellRemoved(one.pid, one.removed, json);
      KeepFirst(one.status, &first);
    }
    // Looks for code that an earlier version, or a removed probe of the kernel, has left damaged
    // and that no owner will restore any more.
    if (!has_failed) {
      for (const CleanedProcess& one : family) {
        absl::Status code = CheckCode(one.pid);
        if (ExitCodeOf(code) != ExitCode::kHostUnfit) continue;
        has_failed = true;
        KeepFirst(std::move(code), &first);
      }
    }
    if (!is_found && !has_failed) TellNothingLeft(pid, json);
    if (is_held) waiting->push_back(pid);
    std::fflush(stdout);
  }
  return first;
}

// Cleans again and again, with ever longer pauses, because nobody can say when a debugger lets a
// process go or a frozen one is thawed.
absl::Status RunPatientClean(std::vector<uint32_t> pids, bool json) {
  unsigned pause_ms = kFirstPauseMs;
  while (true) {
    std::vector<uint32_t> waiting;
    absl::Status status = RunClean(pids, json, &waiting);
    if (waiting.empty()) return status;
    usleep(pause_ms * 1000);
    pause_ms = std::min(2 * pause_ms, kLastPauseMs);
    pids = std::move(waiting);
  }
}

}  // namespace

void AddCleanCommand(CLI::App& app, Action* action) {
  auto arguments = std::make_shared<CleanArguments>();
  CLI::App* clean = app.add_subcommand(
      "clean",
      "Take away what a killed proftrace has left in a process and its children: jumps in its code "
      "and memory (--tier patch). The job goes on meanwhile, and does not need it to go on.\n"
      "Example: sudo proftrace clean -p 4711");
  clean->add_option("-p,--pid", arguments->pids, "cleans this process")
      ->type_name("PID")
      ->required()
      ->check(WhyNoPid);
  AddSeccompOption(clean);
  clean->add_flag("--json", arguments->json, "prints what was done, one JSON object a line");
  AddJsonSchema(clean);
  // This option is for the guardian process, so that --help does not show it.
  clean
      ->add_flag("--wait", arguments->waits,
                 "try again as long as a debugger has the process, or it is frozen")
      ->group("");
  clean->callback([arguments, action] {
    *action = [arguments] {
      std::vector<uint32_t> waiting;
      return arguments->waits ? RunPatientClean(arguments->pids, arguments->json)
                              : RunClean(arguments->pids, arguments->json, &waiting);
    };
  });
}

}  // namespace proftrace
