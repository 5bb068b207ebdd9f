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
#include "userspace/model/cpu_mask.h"
#include "userspace/model/cpu_quota.h"
#include "userspace/model/host_state.h"
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
  std::vector<ProcessGroup> process_groups;  // the groups that the process is in
  std::optional<int> process_group_count;    // groups that were made, also those that it is not in
  uint32_t threads = 0;
  bool followed = false;  // a child that was picked up while recording
  // The earliest time at which the process may have run operators, in CLOCK_MONOTONIC. 0 = it may
  // have run operators before it was attached to, and the window began when its probes were live.
  int64_t could_run_ns = 0;
  int64_t probes_begin_ns = 0;  // CLOCK_MONOTONIC; the first probe went in
  // When all probes were in, in CLOCK_MONOTONIC. The process's events count from here on.
  int64_t probes_on_ns = 0;
  uint32_t operator_count = 0;   // operators with a probe
  bool inputs_recorded = false;  // its operators' probes read what they are called with
  bool memory_recorded = false;  // its allocations and frees have probes
  bool stacks_recorded = false;  // its Python frames are read where rows begin (--with-stack)
  // The folders in which Python finds the process's modules (sys.path and the like), in
  // torch.profiler's order. Each ends with "/"; the first one that a file's name begins with is
  // left out of the name.
  std::vector<std::string> python_paths;
  JobIdentity job;
  // The process's numbers in its PID namespaces, from the recorder's namespace down to its own, and
  // the number of its own namespace as in /proc/PID/ns/pid. Older captures have no numbers, and 0.
  std::vector<uint32_t> namespace_pids;
  uint64_t pid_namespace = 0;
  uint64_t start_ticks = 0;  // since boot, in clock ticks: differs where a PID is used again
  // How much the process's time namespace adds to the host's clocks, by which all times of a
  // recording are told. The process's own CLOCK_MONOTONIC, which it may have written into its logs,
  // shows that much more. nullopt: not known.
  std::optional<int64_t> monotonic_offset_ns;
  std::optional<int64_t> boottime_offset_ns;
  std::string control_group;  // "/kubepods.slice/…"; empty = not known
};

struct Window {
  int64_t start_ns = 0;  // CLOCK_MONOTONIC
  int64_t duration_ns = 0;
  int64_t monotonic_to_unix_ns = 0;  // CLOCK_MONOTONIC + this = nanoseconds since the Unix epoch
  double attach_s = 0;               // from the start of the program until every probe was live
  double detach_s = 0;               // from the signal until no probe was left
};

// What records of system activity took, in nanoseconds of the thread's time, by loops in proftrace
// before the recording.
struct SystemCost {
  double call = 0;   // the record of a system call, or of a time off the CPU
  double fault = 0;  // the record of a page fault
  // What a page fault itself takes beside the time in its record: the way into the kernel and back.
  double fault_beside = 0;
};

struct Cost {
  double tracer_cpu_s = 0;  // user + system time of proftrace while recording
  uint64_t probe_hits = 0;
  double probe_ns_per_hit = 0;
  double estimated_overhead_percent = 0;  // of what the job would have taken without it
  std::string basis;                      // how the figures came about, one sentence
  // How many of the hits read the inputs of an operator or a node (--record-shapes), and how long
  // one reading takes in addition. nullopt: the time could not be measured and is not in the
  // estimate.
  uint64_t input_readings = 0;
  std::optional<double> input_ns_per_reading;
  // With tier patch: records that jumps wrote. They are not in `probe_hits`.
  uint64_t jumps = 0;
  // What such a record takes, measured in proftrace itself with cold caches, or by the CPU time of
  // operators in the job with jumps and without.
  double ns_per_jump = 0;
  SystemCost system;
  // What the hits of the thread with the most hits took, in percent of the rest of the window. This
  // is less than `estimated_overhead_percent` where threads wait. nullopt: not known.
  std::optional<double> busiest_thread_percent = std::nullopt;
};

// The steps that a recording was asked to count (--steps, --schedule), as the recorder found them.
struct RecordedSteps {
  Pid pid{};
  Tid tid{};                   // that drives the loop
  int64_t first_number = 0;    // of the first step, counted since the probes were live
  bool are_annotated = false;  // by the job: they are spans already
  std::string how;
  double confidence = 0;
  std::vector<std::pair<int64_t, int64_t>> intervals;  // start and end, CLOCK_MONOTONIC
};

// An operator that was demoted to keep a budget (--max-overhead): from `since_ns` on its calls were
// counted but not recorded.
struct DemotedOperator {
  Pid pid{};
  uint16_t site = 0;
  std::string name;
  int64_t since_ns = 0;  // CLOCK_MONOTONIC
  // When calls were no longer even counted, in CLOCK_MONOTONIC; 0 = they were counted to the end.
  int64_t removed_ns = 0;
  // When the process ended or ran another program, in CLOCK_MONOTONIC; 0 = it did neither.
  int64_t until_ns = 0;
  uint64_t calls = 0;  // calls that were only counted
};

// The limit that --max-overhead set, and how far it was kept. The overhead is that of the most
// slowed process, by the same estimate as in Cost.
struct Budget {
  double max_overhead_percent = 0;
  bool is_kept = false;
  std::optional<double> before_percent;  // until operators were demoted; nullopt: not measured
  std::optional<double> after_percent;   // since the last operator was demoted
  // The job's median step, where steps were found before and after.
  std::optional<double> step_before_us;
  std::optional<double> step_after_us;
  std::vector<DemotedOperator> demoted;
  // True: the recording is a part of a longer one (a cycle, a dump), and all values here are those
  // of the longer one.
  bool is_of_longer = false;
};

struct Unsupported {
  std::string feature;
  std::string reason;
  // True: the gap is in code of a loaded library, and it is not known whether that code ran. Most
  // jobs never run it.
  bool is_only_loaded = false;
  // A row of this name was recorded only if the code ran; empty = no row tells.
  std::string row = {};
};

// Why a flight recorder wrote what it had (--flight-recorder).
struct FlightNote {
  std::string reason;  // "SIGUSR1", "step>2x: step 17 took …"
  double asked_s = 0;  // the window that was asked for
};

// The last state that the GPU agent of a process reported (struct pt_agent_page).
struct GpuAgent {
  Pid pid{};
  uint32_t number = 0;  // counts the process's agents: there is a second one after an exec
  std::string state;    // "running", "stopped", "failed", …
  std::string failure;  // empty = none; else "no CUPTI", "taken", …
  std::string message;  // why it failed
  uint32_t cupti_result = 0;
  uint32_t cupti_version = 0;
  uint32_t driver_version = 0;   // 12040; 0 = not known
  uint32_t runtime_version = 0;  // 12040; 0 = not known
  uint64_t cupti_records = 0;    // records that CUPTI gave to the agent
  uint64_t ring_records = 0;     // records that the agent handed over
  uint64_t ring_dropped = 0;     // records that the ring had no room for
  uint64_t unread_records = 0;   // records of kinds or layouts that the agent does not know
  uint64_t cupti_dropped = 0;    // records that CUPTI lost by its own count
  uint64_t buffers_refused = 0;  // CUPTI asked for a buffer and none was left
  // Buffers that CUPTI handed over with an incomplete record, behind which nothing can be read.
  uint64_t incomplete_buffers = 0;
  uint64_t incomplete_bytes = 0;  // bytes that could not be read for that reason
};

// The activities that are recorded (--activities).
struct SystemActivities {
  bool operators = true;  // `cpu`
  // What the kernel does for threads.
  bool calls = false;   // all system calls
  bool io = false;      // only system calls that move bytes of files and of the network
  bool sched = false;   // time off the CPU
  bool faults = false;  // page faults

  bool any() const { return calls || io || sched || faults; }
  // Returns the activities as --activities names them: "cpu,syscalls,sched".
  std::string ToText() const;
  // Reads that text. Unknown names are left out. An empty text, as in older captures, means
  // operators.
  static SystemActivities FromText(std::string_view text);
};

struct Host {
  std::string name;
  std::string kernel;
  uint32_t cpus = 0;
  // The kernel's id of this boot of this host, which no other boot has; empty in older captures.
  std::string boot_id = {};
  // A hash of /etc/machine-id as 16 hex digits, because the id itself must stay secret. Hosts that
  // were copied from one image may have the same hash; empty where the id cannot be read.
  std::string machine_id_hash = {};
};

// How `--tier auto` chose between the kernel's probes and jumps.
struct TierChoice {
  double limit_percent = 0;  // the most by which probes may slow a thread (--auto-limit)
  // By how much probes would slow the busiest thread, as an estimate; nullopt: its operators were
  // not counted. The next three members describe that thread.
  std::optional<double> probes_percent = std::nullopt;
  // Per second in which the thread ran or slept, waits for a CPU not counted.
  double operators_per_s = 0;
  double ns_per_operator = 0;  // the estimated time that probes take
  Tid tid{};
  std::string reason = {};         // a sentence, without the full stop
  bool are_jumps_refused = false;  // jumps would have been chosen, but could not be used
};

struct RecordingInfo {
  std::string proftrace_version;
  std::string tier = "bpf";
  // nullopt: the tier was forced, or no operators are recorded
  std::optional<TierChoice> tier_choice;
  // How GPU activity was recorded: "off"; "launch": only calls of the CUDA Runtime and Driver;
  // "agent": the records of CUPTI.
  std::string gpu = "off";
  std::vector<GpuAgent> gpu_agents;  // in the order of their first reports
  std::vector<std::string> arguments;
  std::string trace_name;
  SystemActivities system;
  bool with_flops = false;  // --with-flops: estimates of them are shown
  std::vector<std::pair<std::string, std::string>> metadata;  // --metadata KEY=VALUE, in order
  // --metadata-json KEY=JSON, in order; the texts need not be JSON where a capture is damaged.
  std::vector<std::pair<std::string, std::string>> metadata_json;
  Host host;
  std::vector<Target> targets;
  // False: the recorder was killed before it wrote the end of the capture, so that losses, cost and
  // the length of the window are not known.
  bool has_end = true;
  Window window;
  // The clocks at the begin of the window, every ten seconds, and at its end, in order of time. A
  // part of a longer recording has all snapshots of the longer one; older captures have none.
  std::vector<ClockSnapshot> clocks;
  // The quotas each second and at the window's begin and end, in order of time. A part of a longer
  // recording has all snapshots that the longer one kept; older captures have none.
  std::vector<CpuQuotaSnapshot> cpu_quotas;
  // The state of the host at the times of `clocks`; older captures have none.
  std::vector<HostState> host_states;
  // The control groups that may bound a process's CPU time, by pid: its own group and those above
  // it. The snapshots have the quotas of those with a quota. For a process without an entry the
  // groups are not known.
  std::map<uint32_t, std::vector<std::string>> cpu_groups;
  // The CPUs that a process may run on, by pid. A process without an entry is of an older capture,
  // or its mask was changed during the recording.
  std::map<uint32_t, CpuMask> cpu_masks;
  Cost cost;
  std::optional<RecordedSteps> steps;
  std::optional<FlightNote> flight;  // nullopt: no flight recorder wrote it
  std::optional<Budget> budget;      // nullopt: no budget was set
  std::vector<Unsupported> unsupported;
};

}  // namespace proftrace
