// One recording from attach to the closed capture.
#pragma once

#include <absl/status/status.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "symbols/plan/planner.h"
#include "userspace/capture/gpu/gpu_agents.h"
#include "userspace/capture/kernel/bpf_programs.h"
#include "userspace/capture/session/flight_recorder.h"
#include "userspace/model/recording.h"
#include "userspace/wire/capture_writer.h"

namespace proftrace {

// A change of a process's budget since the last look.
struct BudgetNews {
  Pid pid{};
  std::vector<std::string> demoted;  // the names of operators
  // The overhead that is left once all changes are carried out.
  std::optional<double> measured_percent;
};

// The figures of the live line.
struct Progress {
  double elapsed_s = 0;
  uint64_t records = 0;
  double records_per_s = 0;  // since the last progress
  uint64_t lost = 0;
  std::optional<double> step_ms;  // the length of the last step that was found
  uint64_t steps = 0;             // steps found so far; counted only where the user waits for steps
  Tid step_tid{};  // the thread whose steps these are: the one with the best evidence
};

// The facts about a recording at the moment at which every probe is live.
struct Ready {
  size_t processes = 0;
  uint32_t operator_count = 0;  // operators of the first process; 0 while all targets are awaited
  double attach_s = 0;
};

// How the calls of operators are recorded.
enum class Tier {
  kBpf,    // by the kernel's probes
  kPatch,  // by jumps in the code of the processes where they can be, the kernel's probes elsewhere
  kAuto,   // by probes where they cost little, by jumps where these can be, else by probes
};

struct RecordOptions {
  std::vector<Pid> pids;  // running processes
  bool all = false;       // every PyTorch process of the host, also those that start later
  // Processes that this program has just started. They are attached to as soon as they have loaded
  // PyTorch.
  std::vector<Pid> awaited;
  // When the window begins, in nanoseconds since the Unix epoch; probes are put in shortly before.
  std::optional<int64_t> start_unix_ns;
  std::optional<double> duration_s;  // nullopt: until `stop` is set or all targets have ended
  std::optional<uint64_t> steps;     // the recording ends when so many steps of the job are over
  // Whether steps are found, however many, for the result and the capture.
  bool counts_steps = false;
  // The percentage of the processes' time that recording may take; operators are demoted to keep
  // within it. nullopt: no operator is demoted.
  std::optional<double> max_overhead_percent;
  // Demoted operators are still counted, never left out altogether (tests).
  bool keeps_counting = false;
  // Nanoseconds between two samples of a thread (--sample); nullopt: threads are not sampled.
  std::optional<int64_t> sample_period_ns;
  // Threads are sampled when they wake others (--waker-stacks).
  bool samples_wakers = false;
  Tier tier = Tier::kAuto;
  // With kAuto: the percentage by which probes may slow a thread before jumps take their place.
  double auto_limit_percent = 3;
  // Whether no BPF program is loaded; not allowed with kBpf. Otherwise programs are loaded where
  // that is possible.
  bool without_bpf = false;
  BpfOptions bpf;
  PlanOptions plan;
  // Activity of GPUs by CUPTI: an agent is put into running processes that use one. nullopt: no
  // agents.
  std::optional<AgentOptions> agent;
  // Only the last seconds are kept, and given to RecordCallbacks::on_dump.
  std::optional<FlightOptions> flight;
  // Where `info.system` has no operators, the processes need no PyTorch, and `all` means every
  // process of the host.
  RecordingInfo info;  // version, arguments, trace name, metadata: written as they are
};

struct RecordCallbacks {
  std::function<void(const Ready&)> on_ready;
  // Tells which tier kAuto has chosen ("bpf" or "patch"), and why, where there was a choice.
  std::function<void(const std::string& tier, const TierChoice& choice)> on_tier;
  // Tells that there is no eBPF, and that jumps record alone. `why` is a sentence.
  std::function<void(const std::string& why)> on_without_bpf;
  // Tells that recording waits for a process that is in the middle of its import of PyTorch.
  std::function<void(Pid pid)> on_import;
  // Tells that one of several processes that were named cannot be recorded. The others are
  // recorded.
  std::function<void(Pid pid, const absl::Status& why)> on_refused;
  // Tells that a process has another tracer's jumps, so that the places where these lie are not
  // recorded.
  std::function<void(const std::string& why)> on_anothers_jumps;
  // Tells in a sentence that a part of a process, or all of it, cannot be recorded, or gave
  // nothing.
  std::function<void(const std::string& what)> on_missing;
  // Tells that something of ours stays in a process.
  std::function<void(const std::string& what)> on_left_behind;
  // Tells that operators were demoted, or that the overhead left was measured (--max-overhead),
  // `after_s` seconds after the window's begin.
  std::function<void(const BudgetNews&, double after_s)> on_budget;
  // Tells that a forked child is recorded, `after_ns` after its fork. On another thread.
  std::function<void(Pid child, int64_t after_ns)> on_follow;
  // Tells that an awaited process has loaded PyTorch and is recorded. On another thread.
  std::function<void(Pid pid, uint32_t operator_count)> on_awaited;
  // Gets a dump of the flight recorder, which is written while the recording goes on.
  std::function<void(FlightDump)> on_dump;
  // Gets the window that FlightOptions::summary_period_ns asks for.
  std::function<void(FlightDump)> on_summary;
  std::function<void(const Progress&)> on_progress;  // about twice a second
};

struct RecordResult {
  absl::Status status;  // how the recording ended; the capture holds what came before an error
  // Whether at least one process was attached to; otherwise nothing was recorded.
  bool attached = false;
  uint64_t records = 0;
  uint64_t ring_lost = 0;
  Window window;
  Cost cost;
  std::optional<Budget> budget;         // when there was one
  std::optional<RecordedSteps> steps;   // when they were asked for and found
  std::optional<FlightDump> last_dump;  // the flight recorder's; it has its own `window`
  uint64_t triggers_passed_over = 0;    // triggers that fired without making a dump
  bool targets_ended = false;           // the recording is over because no target is left
  absl::Status code;                    // whether recorded processes run the code of their files
};

// Records into `writer` (null: a flight recorder) until the duration is over, `stop` is set, or no
// target is left. Where it fails before the first probe is live, nothing is recorded.
RecordResult Record(const RecordOptions& options, std::unique_ptr<CaptureWriter> writer,
                    const RecordCallbacks& callbacks, const std::atomic<bool>& stop);

}  // namespace proftrace
