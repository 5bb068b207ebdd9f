// The side tables of a capture: everything that a replay needs beside the records. They are written
// as JSON arrays of objects, each with a "type". Readers skip unknown types and fields, so that new
// ones may be added.
#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "userspace/model/label.h"
#include "userspace/model/recording.h"
#include "userspace/stats/ledger.h"
#include "userspace/wire/capture_format.h"

namespace proftrace {

// The latest CLOCK_MONOTONIC time that a capture may hold: 18 years after boot. A damaged or
// hostile file may have later times, which are not accepted, so that times and the offset to Unix
// time can be added without overflow.
inline constexpr int64_t kLatestMonotonicNs = int64_t{1} << 59;
// The bound of `monotonic_to_unix_ns`: about the year 2116.
inline constexpr int64_t kLatestUnixNs = int64_t{1} << 62;

// The labels of one probe plan's sites. The index is the `site` of the records.
struct PlanTable {
  std::vector<Label> sites;
};

// The operators of one address space, by the address of their OperatorDef.
struct OperatorEntry {
  uint64_t address = 0;
  std::string name;
  std::string overload_name;
  // "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"; empty: not read.
  std::string schema;
};

// The schema of an operator whose OperatorEntry was added before.
struct SchemaEntry {
  uint64_t address = 0;
  std::string schema;
};

// An address space: a process from its start or exec on. Forked children share their parent's image
// (though not its memory), because everything lies at the same addresses.
struct ImageTable {
  std::map<uint64_t, OperatorEntry> operators;
  std::map<uint64_t, std::string> node_names;  // vtable -> class of an autograd node, demangled
  std::map<uint64_t, std::string> python_type_names;  // PyTypeObject* -> tp_name
  std::map<uint32_t, std::string> symbol_names;       // number of a c10::Symbol -> "aten::relu"
};

// A process that is recorded, from `target.probes_on_ns` on.
struct ProcessEntry {
  Target target;
  uint32_t plan = 0;
  uint32_t image = 0;
};

// What a process's environment says later, where that differs from its ProcessEntry.
struct JobEntry {
  std::optional<int> rank;
  std::optional<int> world_size;
  JobIdentity identity;
};

struct ThreadEntry {
  Pid pid{};
  Tid tid{};
  std::string name;
};

// Names the nn.Modules of one type that lay at one address, one after the other.
struct ModuleKey {
  Pid pid{};
  uint64_t address = 0;
  uint64_t type = 0;  // address of the Python type

  auto operator<=>(const ModuleKey&) const = default;
};

// Names a place at which TorchScript's interpreter was: the code that it ran, and the node of the
// code's graph.
struct ScriptKey {
  Pid pid{};
  uint32_t image = 0;
  uint64_t code = 0;
  uint64_t node = 0;

  auto operator<=>(const ScriptKey&) const = default;
};

// The part that a frame at such a place adds to torch's Module Hierarchy, which is "TOP" and, for
// each frame, the `prefix` of the frame before and the frame's `text`.
struct ScriptText {
  std::string text;
  std::string prefix;
};

struct CaptureMetadata {
  RecordingInfo info;  // targets are in `processes` until a decoder puts them together
  // only the counters that the recorder knows: ring_lost, read_failed, follow_failed, demoted
  Ledger kernel_ledger;
  bool has_end = false;  // the recorder wrote the end (window, cost, ledger)
  bool is_part = false;  // it was cut out of a longer capture
  std::map<uint32_t, PlanTable> plans;
  std::map<uint32_t, ImageTable> images;
  std::vector<ProcessEntry> processes;  // in the order in which they were attached
  std::vector<ThreadEntry> threads;
  std::map<uint32_t, std::vector<ProcessGroup>> process_groups;  // by pid; the latest reading
  std::map<uint32_t, int> process_group_counts;                  // by pid, where they are known
  // The group whose backend lies at an address, by pid and address. nullopt: two readings found
  // different groups there.
  std::map<std::pair<uint32_t, uint64_t>, std::optional<ProcessGroup>> groups_at;
  std::map<uint32_t, JobEntry> jobs;  // by pid; the latest reading
  // The paths of nn.Modules in the outermost module that called them, by the time of the record
  // that defined the module. Older captures have 0 for that time and for the type.
  std::map<ModuleKey, std::map<int64_t, std::string>> module_paths;

  std::map<ScriptKey, ScriptText> scripts;

  // Returns the path of the nn.Module that a record defined at `told_ns`; nullptr: it is not known.
  const std::string* PathOfModule(const ModuleKey& module, int64_t told_ns) const;

  // Adds the contents of one metadata block. Fails with ExitCode::kInputDamaged where the text is
  // not a JSON array.
  absl::Status Merge(std::string_view json_array);

 private:
  void AddPlacesOfGroups(uint32_t pid);
};

// Collects entries for the next metadata blocks.
class MetadataWriter {
 public:
  MetadataWriter();
  ~MetadataWriter();
  MetadataWriter(MetadataWriter&&) noexcept;
  MetadataWriter& operator=(MetadataWriter&&) noexcept;

  // Adds version, tier, arguments, host, trace name, user metadata; window.start_ns and
  // monotonic_to_unix_ns. Called twice: before the first record, without a start, and when the
  // window begins. The last entry counts.
  void AddRecording(const RecordingInfo& info);
  void AddPlan(uint32_t plan, const std::vector<Label>& sites);
  void AddOperators(uint32_t image, const std::vector<OperatorEntry>& operators);
  void AddSchemas(uint32_t image, const std::vector<SchemaEntry>& schemas);
  void AddNodeName(uint32_t image, uint64_t vtable, const std::string& name);
  void AddPythonTypeName(uint32_t image, uint64_t type, const std::string& name);
  void AddSymbolName(uint32_t image, uint32_t symbol, const std::string& name);
  void AddModulePath(const ModuleKey& module, int64_t told_ns, const std::string& path);
  void AddScript(const ScriptKey& key, const ScriptText& text);
  void AddProcess(const ProcessEntry& process);
  void AddJob(Pid pid, const JobEntry& job);
  void AddThread(const ThreadEntry& thread);
  // `count`: the number of groups that were made, as in Target.
  void AddProcessGroups(Pid pid, const std::vector<ProcessGroup>& groups,
                        std::optional<int> count = std::nullopt);
  // Adds one of a recording's snapshots. They must be added in order of time.
  void AddClocks(const ClockSnapshot& clocks);
  // Does so with the states of the host.
  void AddHostState(const HostState& state);
  // Adds the groups that may bound a process's CPU time; nullopt: they are not known, or not any
  // more. The last entry counts.
  void AddCpuGroups(Pid pid, const std::optional<std::vector<std::string>>& groups);
  void AddCpuQuotas(const CpuQuotaSnapshot& snapshot);
  // Adds the CPUs that a process may run on; nullopt: they are not known any more. The last entry
  // counts.
  void AddCpuMask(Pid pid, const std::optional<CpuMask>& mask);
  void AddUnsupported(const Unsupported& unsupported);
  // Adds how GPU activity was captured: RecordingInfo::gpu.
  void AddGpu(const std::string& how);
  // Adds the state that the GPU agent of a process reports. An agent's last entry counts.
  void AddGpuAgent(const GpuAgent& agent);
  void AddSteps(const RecordedSteps& steps);
  // Adds how `--tier auto` chose; the last one counts.
  void AddTierChoice(const TierChoice& choice);
  // Adds a budget; the last one counts.
  void AddBudget(const Budget& budget);
  // Adds that the capture is a part of a longer one and begins at `start_ns`.
  void AddCut(int64_t start_ns);
  // Adds why a flight recorder wrote the capture.
  void AddFlightNote(const FlightNote& note);
  // Adds the end of the recording: the window, its cost and the kernel's losses. The window's start
  // and its offset to Unix time are repeated, for captures in which the recording's own entry is
  // missing.
  void AddEnd(const Window& window, const Cost& cost, const Ledger& kernel_ledger);

  // Returns the entries since the last call as one JSON array for each block; none where there are
  // no new entries. An array is longer than `most_bytes` only where a single entry is.
  std::vector<std::string> TakeJson(size_t most_bytes = kMaxBlockBytes / 4);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace proftrace
