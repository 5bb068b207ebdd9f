// The facts of a recording beside its events: host, targets, window, cost, and what was not
// captured.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "userspace/model/clock_snapshot.h"
#include "userspace/model/cpu_quota.h"
#include "userspace/model/ids.h"
#include "userspace/model/job_identity.h"
#include "userspace/model/process_group.h"

namespace proftrace {

struct Target {
  Pid pid{};
  Pid ppid{};
  std::string comm;
  std::string exe;
  std::vector<std::string> cmdline;
  std::string python_version;  // empty = not known
  std::string torch_version;
  std::string torch_build_id;  // hex
  std::string cuda_version;
  std::optional<int> rank;
  std::optional<int> world_size;
  std::vector<ProcessGroup> process_groups;  // that it is in
  std::optional<int> process_group_count;    // that were made, also those that it is not in
  uint32_t threads = 0;
  bool followed = false;  // a child that was picked up while recording
  // When it may have begun to run operators, in CLOCK_MONOTONIC; 0 = before it was attached to, and
  // the window began when its probes were live.
  int64_t could_run_ns = 0;
  int64_t probes_begin_ns = 0;   // CLOCK_MONOTONIC; the first probe went in
  int64_t probes_on_ns = 0;      // CLOCK_MONOTONIC; all are there: its events count from here
  uint32_t operator_count = 0;   // operators with a probe
  bool inputs_recorded = false;  // its operators' probes read what they are called with
  bool memory_recorded = false;  // its allocations and frees have probes
  bool stacks_recorded = false;  // its Python frames are read where rows begin (--with-stack)
  // Folders that its modules are found in (sys.path and the like), as torch.profiler sorts them:
  // each ends with "/", and the first one that fits is left out of a file's name.
  std::vector<std::string> python_paths;
  JobIdentity job;
  // Its numbers in the PID namespaces that it is in, from the recorder's on to its own; and the
  // number of its own, as in /proc/PID/ns/pid. None, and 0, in older captures.
  std::vector<uint32_t> namespace_pids;
  uint64_t pid_namespace = 0;
  uint64_t start_ticks = 0;  // since boot, in clock ticks: tells a PID apart that is used again
  // What its time namespace adds to the clocks that all times of a recording are of: its own
  // CLOCK_MONOTONIC, which it may have written into its logs, shows so much more. nullopt: not
  // known.
  std::optional<int64_t> monotonic_offset_ns;
  std::optional<int64_t> boottime_offset_ns;
  std::string control_group;  // "/kubepods.slice/…"; empty = not known
};

struct Window {
  int64_t start_ns = 0;  // CLOCK_MONOTONIC
  int64_t duration_ns = 0;
  int64_t monotonic_to_unix_ns =
      0;                // add to CLOCK_MONOTONIC to get nanoseconds since the Unix epoch
  double attach_s = 0;  // from the start of the program until every probe was live
  double detach_s = 0;  // from the signal until no probe was left
};

struct Cost {
  double tracer_cpu_s = 0;  // user + system time of proftrace while recording
  uint64_t probe_hits = 0;
  double probe_ns_per_hit = 0;
  double estimated_overhead_percent = 0;  // of what the job would have taken without it
  std::string basis;                      // how the figures came about, one sentence
  // How many of those hits read what an operator or a node was called with (--record-shapes), and
  // what that adds to one; nullopt where it could not be measured, and is not in the estimate.
  uint64_t input_readings = 0;
  std::optional<double> input_ns_per_reading;
  // Tier patch: records of jumps, which are no hits of probes.
  uint64_t jumps = 0;
  double ns_per_jump = 0;  // in proftrace itself, with caches as cold as in the job
  // By how much longer the thread with the most hits took for what it did: less than the overhead
  // where threads wait. nullopt: not known.
  std::optional<double> busiest_thread_percent = std::nullopt;
};

// The steps that a recording was asked to count (--steps, --schedule), as the recorder found them.
struct RecordedSteps {
  Pid pid{};
  Tid tid{};                   // that drives the loop
  int64_t first_number = 0;    // of the first one, counted since the probes were live
  bool are_annotated = false;  // by the job: they are spans already
  std::string how;
  double confidence = 0;
  std::vector<std::pair<int64_t, int64_t>> intervals;  // start and end, CLOCK_MONOTONIC
};

// An operator whose calls were only counted from some moment on, to keep a budget.
struct DemotedOperator {
  Pid pid{};
  uint16_t site = 0;
  std::string name;
  int64_t since_ns = 0;    // CLOCK_MONOTONIC
  int64_t removed_ns = 0;  // CLOCK_MONOTONIC; not even counted from then on; 0 = it was to the end
  int64_t until_ns = 0;    // CLOCK_MONOTONIC; it ended or ran another program; 0 = it did not
  uint64_t calls = 0;      // that were only counted
};

// What --max-overhead asked for, and what came of it. The overhead is that of the process that has
// most of it, by the estimate that Cost has.
struct Budget {
  double max_overhead_percent = 0;
  bool is_kept = false;
  std::optional<double> before_percent;  // until operators were demoted; none: not measured
  std::optional<double> after_percent;   // since the last of them was
  // The job's median step, where steps were found before and after.
  std::optional<double> step_before_us;
  std::optional<double> step_after_us;
  std::vector<DemotedOperator> demoted;
  // The recording is a part of a longer one (a cycle, a dump), of which all of this speaks.
  bool is_of_longer = false;
};

struct Unsupported {
  std::string feature;
  std::string reason;
  // The gap is in code that a loaded library has, and nothing tells that it ran: most jobs never
  // run it.
  bool is_only_loaded = false;
  std::string row = {};  // if a row of this name was recorded, it did run; empty = nothing tells
};

// Why a flight recorder wrote what it had (--flight-recorder).
struct FlightNote {
  std::string reason;  // "SIGUSR1", "step>2x: step 17 took …"
  double asked_s = 0;  // the window that was asked for
};

// The last words of the GPU agent of a process (struct pt_agent_page).
struct GpuAgent {
  Pid pid{};
  uint32_t number = 0;  // of the process's agents: one that execs may have a second
  std::string state;    // "running", "stopped", "failed", …
  std::string failure;  // empty = none; else "no CUPTI", "taken", …
  std::string message;  // why it failed
  uint32_t cupti_result = 0;
  uint32_t cupti_version = 0;
  uint32_t driver_version = 0;   // 12040; 0 = not known
  uint32_t runtime_version = 0;  // 12040; 0 = not known
  uint64_t cupti_records = 0;    // that CUPTI gave it
  uint64_t ring_records = 0;     // that it handed over
  uint64_t ring_dropped = 0;     // had no room
  uint64_t unread_records = 0;   // of kinds or layouts that it does not know
  uint64_t cupti_dropped = 0;    // by CUPTI's own count
  uint64_t buffers_refused = 0;  // CUPTI asked for one, and none was left
  // CUPTI handed over with a record that was not complete, behind which nothing can be read.
  uint64_t incomplete_buffers = 0;
  uint64_t incomplete_bytes = 0;  // of what could not be read
};

// The activities that are recorded (--activities).
struct SystemActivities {
  bool operators = true;  // `cpu`
  // What the kernel does for threads.
  bool calls = false;   // all system calls
  bool io = false;      // those that move bytes of files and of the network
  bool sched = false;   // time off the CPU
  bool faults = false;  // page faults

  bool any() const { return calls || io || sched || faults; }
  // "cpu,syscalls,sched": as --activities names them.
  std::string ToText() const;
  // Reads that text; what it does not know is left out. Without text, as in older captures:
  // operators.
  static SystemActivities FromText(std::string_view text);
};

struct Host {
  std::string name;
  std::string kernel;
  uint32_t cpus = 0;
  // What tells one boot of one host from all others; empty in older captures.
  std::string boot_id = {};
  // A hash of /etc/machine-id, which is not to be given away: 16 hex digits. Hosts of one image may
  // have the same; empty where it cannot be read.
  std::string machine_id_hash = {};
};

// How `--tier auto` chose between the kernel's probes and jumps.
struct TierChoice {
  double limit_percent = 0;  // that probes may slow a thread by (--auto-limit)
  // What they were estimated to slow the busiest thread by; nullopt: its operators were not
  // counted. The next three are of that thread.
  std::optional<double> probes_percent = std::nullopt;
  double operators_per_s = 0;  // of the time in which it ran or slept, without waits for a CPU
  double ns_per_operator = 0;  // what probes were estimated to take
  Tid tid{};
  std::string reason = {};         // a sentence, without the full stop
  bool are_jumps_refused = false;  // they would have been chosen, and could not be used
};

struct RecordingInfo {
  std::string proftrace_version;
  std::string tier = "bpf";
  std::optional<TierChoice> tier_choice;  // none: the tier was forced, or no operators are recorded
  // "launch": the calls of the CUDA Runtime and Driver alone; "agent": what CUPTI tells.
  std::string gpu = "off";
  std::vector<GpuAgent> gpu_agents;  // one a process, in the order of their first words
  std::vector<std::string> arguments;
  std::string trace_name;
  SystemActivities system;
  bool with_flops = false;  // --with-flops: estimates of them are shown
  std::vector<std::pair<std::string, std::string>> metadata;  // --metadata KEY=VALUE, in order
  // --metadata-json KEY=JSON, in order; the texts need not be JSON where a capture is damaged.
  std::vector<std::pair<std::string, std::string>> metadata_json;
  Host host;
  std::vector<Target> targets;
  // False: the recorder was killed before its last words. What it lost, what it cost and how long
  // the window was are not known.
  bool has_end = true;
  Window window;
  // At the begin of the window, every ten seconds, and at its end, in order of time. A part of a
  // longer recording has all snapshots of that one; older captures have none.
  std::vector<ClockSnapshot> clocks;
  // Each second, and at the window's begin and end, in order of time; a part of a longer recording
  // has all that were kept of that one, older captures have none.
  std::vector<CpuQuotaSnapshot> cpu_quotas;
  // The groups that may bound a process's CPU time, by pid: its own and those above it. The
  // snapshots have the quotas of groups that have one. A process without an entry: they are not
  // known.
  std::map<uint32_t, std::vector<std::string>> cpu_groups;
  Cost cost;
  std::optional<RecordedSteps> steps;
  std::optional<FlightNote> flight;  // none: no flight recorder's
  std::optional<Budget> budget;      // none: none was asked for
  std::vector<Unsupported> unsupported;
};

}  // namespace proftrace
