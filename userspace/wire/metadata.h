// The side tables of a capture: everything that a replay needs beside the records. Written as JSON
// arrays of objects, each with a "type"; unknown types and fields are skipped, so that they may be
// added.
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
// hostile file has others; within this bound, times and the offset to Unix time can be added
// without overflow.
inline constexpr int64_t kLatestMonotonicNs = int64_t{1} << 59;
// About the year 2116: bounds `monotonic_to_unix_ns`.
inline constexpr int64_t kLatestUnixNs = int64_t{1} << 62;

// The sites of one probe plan: index = `site` of the records.
struct PlanTable {
  std::vector<Label> sites;
};

// The operators of one address space, by the address of their OperatorDef.
struct OperatorEntry {
  uint64_t address = 0;
  std::string name;
  std::string overload_name;
  // "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"; empty where it was
  // not read.
  std::string schema;
};

// The schema of an operator whose OperatorEntry was added before.
struct SchemaEntry {
  uint64_t address = 0;
  std::string schema;
};

// An address space: a process from its start or exec on. Forked children share their parent's
// (image, not memory), since everything in it lies at the same addresses.
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

// What a process's environment says by now, where that is another thing than its ProcessEntry has.
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

// nn.Modules of one type that lay at one address, one after the other.
struct ModuleKey {
  Pid pid{};
  uint64_t address = 0;
  uint64_t type = 0;  // address of the Python type

  auto operator<=>(const ModuleKey&) const = default;
};

// What TorchScript's interpreter runs at one place: the code, and the node of its graph.
struct ScriptKey {
  Pid pid{};
  uint32_t image = 0;
  uint64_t code = 0;
  uint64_t node = 0;

  auto operator<=>(const ScriptKey&) const = default;
};

// What a frame with it adds to torch's Module Hierarchy: that is "TOP" and, for each frame, `text`
// and `prefix`, which is the next frame's.
struct ScriptText {
  std::string text;
  std::string prefix;
};

struct CaptureMetadata {
  RecordingInfo info;    // targets are in `processes` until a decoder puts them together
  Ledger kernel_ledger;  // what only the recorder knows: ring_lost, read_failed, follow_failed,
                         // demoted
  bool has_end = false;  // the recorder wrote its last words (window, cost, ledger)
  bool is_part = false;  // cut out of a longer capture
  std::map<uint32_t, PlanTable> plans;
  std::map<uint32_t, ImageTable> images;
  std::vector<ProcessEntry> processes;  // in the order in which they were attached
  std::vector<ThreadEntry> threads;
  std::map<uint32_t, std::vector<ProcessGroup>> process_groups;  // by pid; the latest reading
  std::map<uint32_t, int> process_group_counts;                  // by pid, where they are known
  // By pid and address. nullopt: readings differ on which group is there.
  std::map<std::pair<uint32_t, uint64_t>, std::optional<ProcessGroup>> groups_at;
  std::map<uint32_t, JobEntry> jobs;  // by pid; the latest reading
  // Where nn.Modules hang in the outermost one that called them, by when they were told of (0 =
  // before captures said that, of any type).
  std::map<ModuleKey, std::map<int64_t, std::string>> module_paths;

  std::map<ScriptKey, ScriptText> scripts;

  // Returns the path of the nn.Module that was told of then; null: it is not known.
  const std::string* PathOfModule(const ModuleKey& module, int64_t told_ns) const;

  // Adds the contents of one metadata block. Fails (ExitCode::kInputDamaged) when it is not such
  // JSON.
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
  // monotonic_to_unix_ns. Written twice: before the first record, without a start, and when the
  // window begins; the last one counts.
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
  // `count`: of all groups that were made, as Target has it.
  void AddProcessGroups(Pid pid, const std::vector<ProcessGroup>& groups,
                        std::optional<int> count = std::nullopt);
  // One of a recording's snapshots, in order of time.
  void AddClocks(const ClockSnapshot& clocks);
  // Adds the groups that may bound a process's CPU time; nullopt: they are not known, or no longer.
  // The last one counts.
  void AddCpuGroups(Pid pid, const std::optional<std::vector<std::string>>& groups);
  void AddCpuQuotas(const CpuQuotaSnapshot& snapshot);
  void AddUnsupported(const Unsupported& unsupported);
  // Adds how GPU activity was captured: RecordingInfo::gpu.
  void AddGpu(const std::string& how);
  // Adds what the GPU agent of a process says of itself; its last words count.
  void AddGpuAgent(const GpuAgent& agent);
  void AddSteps(const RecordedSteps& steps);
  // Adds how `--tier auto` chose; the last one counts.
  void AddTierChoice(const TierChoice& choice);
  // Adds a budget; the last one counts.
  void AddBudget(const Budget& budget);
  // Says that the part of the recording that the capture holds begins later: it was cut out of a
  // longer one.
  void AddCut(int64_t start_ns);
  // Says that it is what a flight recorder had.
  void AddFlightNote(const FlightNote& note);
  // Adds the recorder's last words: the window, with its start and the offset to Unix time again
  // (they count where the recording's own entry is missing), what it cost, what the kernel lost.
  void AddEnd(const Window& window, const Cost& cost, const Ledger& kernel_ledger);

  // Returns one JSON array a block, none when there is nothing new. An array is longer than
  // `most_bytes` only where one entry is.
  std::vector<std::string> TakeJson(size_t most_bytes = kMaxBlockBytes / 4);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace proftrace
