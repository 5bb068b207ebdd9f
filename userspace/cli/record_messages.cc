#include "userspace/cli/record_messages.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <functional>

#include "symbols/plan/process.h"
#include "userspace/base/shown_text.h"
#include "userspace/cli/say.h"

namespace proftrace {
namespace {

std::string DescribeTargets(const RecordedTargets& targets, size_t processes) {
  std::string text;
  size_t named = 0;
  for (const Pid pid : targets.pids) {
    if (targets.refused.contains(pid)) continue;
    const absl::StatusOr<ProcessInfo> info = ReadProcessInfo(pid);
    const std::string comm = !targets.command.empty() ? targets.command
                             : info.ok()              ? info->comm
                                                      : "?";
    text += (text.empty() ? "PID " : ", PID ") + std::to_string(Raw(pid)) + " (" + ShownText(comm) +
            ")";
    ++named;
  }
  if (processes > named) {
    const size_t more = processes - named;
    text += " and " + std::to_string(more) + (more == 1 ? " child" : " children");
  }
  return text;
}

std::function<void(const Ready&)> ReadyLine(const std::shared_ptr<RecordedTargets>& targets,
                                            bool all) {
  return [targets, all](const Ready& ready) {
    const std::string target = DescribeTargets(*targets, ready.processes);
    if (all && ready.processes == 0) {
      Say("no process has loaded PyTorch yet; waiting for the first");
      return;
    }
    if (all) {
      Say("recording all PyTorch processes, %zu now, %u operators, probes on "
          "after %.2f s",
          ready.processes, ready.operator_count, ready.attach_s);
      return;
    }
    if (ready.operator_count == 0) {
      Say("started %s; recording begins when it has loaded PyTorch", target.c_str());
      return;
    }
    Say("recording %s, %u operators, probes on after %.2f s", target.c_str(), ready.operator_count,
        ready.attach_s);
  };
}

std::function<void(const BudgetNews&, double)> BudgetLine(bool is_verbose) {
  return [is_verbose](const BudgetNews& news, double after_s) {
    if (!news.demoted.empty()) {
      std::string names;
      for (const std::string& name : news.demoted) names += (names.empty() ? "" : ", ") + name;
      Say("PID %u: to keep --max-overhead, from %.2f s on calls of these operators are only "
          "counted: %s",
          Raw(news.pid), after_s, names.c_str());
    }
    if (is_verbose && news.measured_percent.has_value()) {
      Say("PID %u: estimated overhead now %.2f %%", Raw(news.pid), *news.measured_percent);
    }
  };
}

void ShowProgressLine(const Progress& progress) {
  char step[80] = "";
  if (progress.step_ms.has_value() && progress.steps > 0) {
    std::snprintf(step, sizeof(step), ", %llu steps of TID %u, the last of %.2f ms",
                  static_cast<unsigned long long>(progress.steps), Raw(progress.step_tid),
                  *progress.step_ms);
  } else if (progress.step_ms.has_value()) {
    std::snprintf(step, sizeof(step), ", step of TID %u %.2f ms", Raw(progress.step_tid),
                  *progress.step_ms);
  }
  ShowProgress("%.1f s, %.0f records/s, %llu lost%s", progress.elapsed_s, progress.records_per_s,
               static_cast<unsigned long long>(progress.lost), step);
}

}  // namespace

void SayAnalysis(const std::string& build_id, uint64_t bytes) {
  Say("analysing a library of %llu MB that is not known (build %.8s); what is found is kept for "
      "the next time",
      static_cast<unsigned long long>(bytes >> 20), ShownText(build_id).c_str());
}

RecordCallbacks TellingCallbacks(const RecordArguments& arguments,
                                 const std::shared_ptr<RecordedTargets>& targets) {
  const RecordOptions& options = arguments.options;
  RecordCallbacks callbacks;
  callbacks.on_refused = [targets](Pid pid, const absl::Status& why) {
    targets->refused.insert(pid);
    Say("warning: PID %u is not recorded: %s; the other processes are recorded", Raw(pid),
        std::string(why.message()).c_str());
  };
  callbacks.on_left_behind = [](const std::string& what) { Say("warning: %s", what.c_str()); };
  callbacks.on_missing = [](const std::string& what) { Say("warning: %s", what.c_str()); };
  if (arguments.quiet) return callbacks;
  const bool all = options.all;
  if (!options.info.system.operators) {
    callbacks.on_ready = [all, targets, what = options.info.system.ToText()](const Ready& ready) {
      const std::string who = all ? "all processes" : DescribeTargets(*targets, 0);
      Say("recording %s, %s, %zu processes, after %.2f s", who.c_str(), what.c_str(),
          ready.processes, ready.attach_s);
    };
  } else {
    callbacks.on_ready = ReadyLine(targets, all);
  }
  if (!options.without_bpf) {
    callbacks.on_without_bpf = [](const std::string& why) {
      Say("eBPF cannot be used, so that only what jumps can see is recorded: %s", why.c_str());
    };
  }
  callbacks.on_tier = [is_verbose = arguments.verbose > 0](const std::string& tier,
                                                           const TierChoice& choice) {
    // Probes that cost little are the usual case, which is not worth a message.
    if (tier != "patch" && !choice.are_jumps_refused && !is_verbose) return;
    Say("operators are recorded by %s: %s", tier == "patch" ? "jumps" : "probes",
        choice.reason.c_str());
  };
  callbacks.on_import = [](Pid pid) {
    Say("PID %u is importing PyTorch: waiting for its operators", Raw(pid));
  };
  callbacks.on_anothers_jumps = [](const std::string& why) { Say("%s", why.c_str()); };
  callbacks.on_budget = BudgetLine(arguments.verbose > 0);
  const auto started = std::chrono::steady_clock::now();
  callbacks.on_awaited = [started](Pid pid, uint32_t operator_count) {
    const std::chrono::duration<double> after = std::chrono::steady_clock::now() - started;
    Say("recording PID %u, %u operators, probes on after %.2f s", Raw(pid), operator_count,
        after.count());
  };
  if (arguments.verbose > 0) {
    callbacks.on_follow = [](Pid child, int64_t after_ns) {
      Say("following PID %u, %.1f ms after its fork", Raw(child),
          static_cast<double>(after_ns) * 1e-6);
    };
  }
  if (arguments.no_progress || isatty(STDERR_FILENO) == 0) return callbacks;
  callbacks.on_progress = ShowProgressLine;
  return callbacks;
}

}  // namespace proftrace
