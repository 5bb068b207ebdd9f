#include "userspace/wire/metadata.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "userspace/base/dumped_json.h"
#include "userspace/base/exit_status.h"
#include "userspace/wire/agent_metadata.h"
#include "userspace/wire/budget_metadata.h"
#include "userspace/wire/clock_metadata.h"
#include "userspace/wire/host_metadata.h"
#include "userspace/wire/metadata_json.h"
#include "userspace/wire/module_metadata.h"
#include "userspace/wire/process_metadata.h"
#include "userspace/wire/quota_metadata.h"
#include "userspace/wire/tier_metadata.h"

namespace proftrace {
namespace {

using namespace metadata_json;  // NOLINT(google-build-using-namespace)

json LabelToJson(const Label& label) {
  json row = json::array({ToJsonText(label.name), ToJsonText(label.overload_name),
                          static_cast<int>(label.category), static_cast<int>(label.scope),
                          static_cast<int>(label.kind)});
  if (label.is_async) row.push_back(true);
  return row;
}

std::optional<Label> LabelFromJson(const json& row) {
  if (!row.is_array() || row.size() < 5 || !row[0].is_string() || !row[1].is_string()) return {};
  for (size_t i = 2; i < 5; ++i) {
    if (!row[i].is_number_unsigned()) return {};
  }
  if (row[2].get<uint64_t>() > static_cast<uint64_t>(Category::kPythonFunction) ||
      row[3].get<uint64_t>() > static_cast<uint64_t>(Scope::kStaticRuntimeModel) ||
      row[4].get<uint64_t>() > static_cast<uint64_t>(SpanKind::kCollection)) {
    return {};
  }
  return Label{FromJsonText(row[0].get_ref<const std::string&>()),
               FromJsonText(row[1].get_ref<const std::string&>()),
               static_cast<Category>(row[2].get<int>()),
               static_cast<Scope>(row[3].get<int>()),
               static_cast<SpanKind>(row[4].get<int>()),
               row.size() > 5 && row[5].is_boolean() && row[5].get<bool>()};
}

// The most process groups that are read, because a hostile file may have any number. No job has so
// many.
constexpr size_t kMostGroups = 4096;

// The largest group whose list of ranks is kept, because the list is written to each output.
constexpr size_t kMostRanks = 8192;

// Returns the ranks; empty unless there are `size` of them.
std::vector<int> RanksFromJson(const json& row, int size) {
  std::vector<int> ranks;
  for (const json& item : Member(row, "ranks")) {
    if (ranks.size() >= kMostRanks || !item.is_number_unsigned()) return {};
    const auto rank = item.get<uint64_t>();
    if (rank > static_cast<uint64_t>(std::numeric_limits<int>::max())) return {};
    ranks.push_back(static_cast<int>(rank));
  }
  if (ranks.size() != static_cast<size_t>(size)) return {};
  return ranks;
}

// Returns the groups with possible values: 0 <= rank < size.
std::vector<ProcessGroup> GroupsFromJson(const json& entry) {
  std::vector<ProcessGroup> groups;
  for (const json& row : Member(entry, "groups")) {
    if (!row.is_object()) continue;
    const std::optional<int> rank = OptionalNumber(row, "rank");
    const std::optional<int> size = OptionalNumber(row, "size");
    if (!rank || !size || *rank < 0 || *rank >= *size) continue;
    if (groups.size() >= kMostGroups) break;
    groups.push_back(ProcessGroup{Text(row, "name"), Text(row, "description"), Text(row, "backend"),
                                  *rank, *size, Text(row, "config"), RanksFromJson(row, *size),
                                  Number<uint64_t>(row, "address")});
  }
  return groups;
}

using TextPairs = std::vector<std::pair<std::string, std::string>>;

TextPairs PairsFromJson(const json& list) {
  TextPairs pairs;
  for (const json& pair : list) {
    const bool is_pair = pair.is_array() && pair.size() == 2;
    if (!is_pair || !pair[0].is_string() || !pair[1].is_string()) continue;
    pairs.emplace_back(FromJsonText(pair[0].get<std::string>()),
                       FromJsonText(pair[1].get<std::string>()));
  }
  return pairs;
}

json PairsToJson(const TextPairs& pairs) {
  json list = json::array();
  for (const auto& [key, value] : pairs) {
    list.push_back(json::array({ToJsonText(key), ToJsonText(value)}));
  }
  return list;
}

// Returns an id of letters and digits; empty where the text has other characters.
std::string IdText(const json& object, const char* key) {
  constexpr size_t kMostBytes = 64;
  std::string text = Text(object, key);
  const bool is_id = text.size() <= kMostBytes && std::all_of(text.begin(), text.end(), [](char c) {
                       return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || c == '-';
                     });
  return is_id ? text : "";
}

// Merges an entry "recording", of which there are two: one with the facts known before the first
// record, and a complete one from the begin of the window.
void MergeRecording(const json& entry, RecordingInfo* info) {
  info->proftrace_version = Text(entry, "version");
  info->tier = Text(entry, "tier");
  info->gpu = Text(entry, "gpu");
  info->trace_name = Text(entry, "trace_name");
  info->with_flops = Flag(entry, "with_flops");
  info->system = SystemActivities::FromText(Text(entry, "activities"));
  info->arguments.clear();
  for (const json& argument : Member(entry, "arguments")) {
    if (argument.is_string()) info->arguments.push_back(FromJsonText(argument.get<std::string>()));
  }
  info->metadata = PairsFromJson(Member(entry, "metadata"));
  info->metadata_json = PairsFromJson(Member(entry, "metadata_json"));
  const json& host = Member(entry, "host");
  info->host = Host{Text(host, "name"), Text(host, "kernel"), Number<uint32_t>(host, "cpus"),
                    IdText(host, "boot_id"), IdText(host, "machine_id_hash")};
  info->window.start_ns = Nanoseconds(entry, "start_ns");
  info->window.monotonic_to_unix_ns = Nanoseconds(entry, "monotonic_to_unix_ns", kLatestUnixNs);
  info->window.attach_s = Number<double>(entry, "attach_s");
}

// Returns what each of many events took, in ns. That is far less than a second.
double NsEach(const json& cost, const char* key) {
  return std::clamp(Number<double>(cost, key), 0.0, 1e9);
}

void MergeEnd(const json& entry, CaptureMetadata* metadata) {
  Window& window = metadata->info.window;
  window.duration_ns = Nanoseconds(entry, "duration_ns");
  window.detach_s = Number<double>(entry, "detach_s");
  // These count where the block with the recording's own entry is damaged.
  if (window.start_ns == 0) window.start_ns = Nanoseconds(entry, "start_ns");
  if (window.monotonic_to_unix_ns == 0) {
    window.monotonic_to_unix_ns = Nanoseconds(entry, "monotonic_to_unix_ns", kLatestUnixNs);
  }
  const json& cost = Member(entry, "cost");
  metadata->info.cost =
      Cost{Number<double>(cost, "tracer_cpu_s"),
           Number<uint64_t>(cost, "probe_hits"),
           Number<double>(cost, "probe_ns_per_hit"),
           Number<double>(cost, "estimated_overhead_percent"),
           Text(cost, "basis"),
           Number<uint64_t>(cost, "input_readings"),
           RealNumber(Member(cost, "input_ns_per_reading")),
           Number<uint64_t>(cost, "jumps"),
           Number<double>(cost, "ns_per_jump"),
           SystemCost{NsEach(cost, "ns_per_system_call"), NsEach(cost, "ns_per_fault_record"),
                      NsEach(cost, "ns_beside_fault")},
           RealNumber(Member(cost, "busiest_thread_percent"))};
  // Only these counters are read, because a replay counts the others itself.
  const json& ledger = Member(entry, "ledger");
  metadata->kernel_ledger.ring_lost = Number<uint64_t>(ledger, "ring_lost");
  metadata->kernel_ledger.read_failed = Number<uint64_t>(ledger, "read_failed");
  metadata->kernel_ledger.follow_failed = Number<uint64_t>(ledger, "follow_failed");
  metadata->kernel_ledger.demoted = Number<uint64_t>(ledger, "demoted");
  metadata->kernel_ledger.samples_lost = Number<uint64_t>(ledger, "samples_lost");
  metadata->kernel_ledger.samples_unsteady = Number<uint64_t>(ledger, "samples_unsteady");
  metadata->kernel_ledger.system_lost = Number<uint64_t>(ledger, "system_lost");
  metadata->has_end = true;
}

// The most steps that are written, so that the entry fits into a block, and that are read. A
// recording of a week has this many steps of half a second.
constexpr size_t kMaxRecordedSteps = 1u << 20;

// Merges an entry "steps". Its list ends at the first times that do not ascend.
void MergeSteps(const json& entry, RecordingInfo* info) {
  RecordedSteps steps;
  steps.pid = Pid{Number<uint32_t>(entry, "pid")};
  steps.tid = Tid{Number<uint32_t>(entry, "tid")};
  steps.first_number = Nanoseconds(entry, "first_number");
  steps.are_annotated = Flag(entry, "are_annotated");
  steps.how = Text(entry, "how");
  steps.confidence = std::clamp(Number<double>(entry, "confidence"), 0.0, 1.0);
  const json& times = Member(entry, "times");
  int64_t earliest_ns = 0;
  for (size_t i = 0; times.is_array() && i + 1 < times.size(); i += 2) {
    const int64_t start_ns = WholeNumber<int64_t>(times[i]).value_or(-1);
    const int64_t end_ns = WholeNumber<int64_t>(times[i + 1]).value_or(-1);
    if (start_ns < earliest_ns || end_ns < start_ns || end_ns > kLatestMonotonicNs) break;
    if (steps.intervals.size() == kMaxRecordedSteps) break;
    steps.intervals.emplace_back(start_ns, end_ns);
    earliest_ns = end_ns;
  }
  info->steps = std::move(steps);
}

void MergePlan(const json& entry, CaptureMetadata* metadata) {
  PlanTable& plan = metadata->plans[Number<uint32_t>(entry, "plan")];
  for (const json& row : Member(entry, "sites")) {
    // An unreadable row keeps its place without a name, so that the sites after it keep their
    // numbers.
    plan.sites.push_back(LabelFromJson(row).value_or(Label{}));
  }
}

void MergeOperators(const json& entry, CaptureMetadata* metadata) {
  ImageTable& image = metadata->images[Number<uint32_t>(entry, "image")];
  for (const json& row : Member(entry, "operators")) {
    if (!row.is_array() || row.size() < 3 || !row[0].is_number_unsigned() || !row[1].is_string() ||
        !row[2].is_string()) {
      continue;
    }
    const uint64_t address = row[0].get<uint64_t>();
    image.operators[address] =
        OperatorEntry{address, FromJsonText(row[1].get_ref<const std::string&>()),
                      FromJsonText(row[2].get_ref<const std::string&>()), ""};
  }
}

void MergeSchemas(const json& entry, CaptureMetadata* metadata) {
  ImageTable& image = metadata->images[Number<uint32_t>(entry, "image")];
  for (const json& row : Member(entry, "schemas")) {
    if (!row.is_array() || row.size() < 2 || !row[0].is_number_unsigned() || !row[1].is_string()) {
      continue;
    }
    const auto known = image.operators.find(row[0].get<uint64_t>());
    if (known == image.operators.end()) continue;
    known->second.schema = FromJsonText(row[1].get_ref<const std::string&>());
  }
}

Unsupported UnsupportedFromJson(const json& entry) {
  return Unsupported{Text(entry, "feature"), Text(entry, "reason"), Flag(entry, "only_loaded"),
                     Text(entry, "row")};
}

// The entries that add facts of their own to RecordingInfo, by their type.
const std::map<std::string_view, void (*)(const json&, RecordingInfo*)> kMerges = {
    {"clock", MergeClocks},     {"host_state", MergeHostState}, {"cpu_groups", MergeCpuGroups},
    {"cpu_mask", MergeCpuMask}, {"cpu_quotas", MergeCpuQuotas}, {"gpu_agent", MergeGpuAgent},
    {"steps", MergeSteps},
};

}  // namespace

void CaptureMetadata::AddPlacesOfGroups(uint32_t pid) {
  for (const ProcessGroup& group : process_groups[pid]) {
    if (group.address == 0) continue;
    const auto [at, is_new] = groups_at.try_emplace({pid, group.address}, group);
    if (is_new || !at->second) continue;
    if (at->second->name != group.name || at->second->size != group.size) {
      at->second.reset();
    } else if (!group.ranks.empty()) {
      at->second = group;
    }
  }
}

absl::Status CaptureMetadata::Merge(std::string_view json_array) {
  // Deeper values than our own are dropped while parsing: "[[[[…" would cost 50 times its size.
  constexpr int kDeepest = 8;
  const auto is_shallow = [](int depth, json::parse_event_t, json&) { return depth <= kDeepest; };
  const json entries = json::parse(json_array, is_shallow, /*allow_exceptions=*/false);
  if (!entries.is_array()) {
    return Fail(ExitCode::kInputDamaged, "a metadata block is not a JSON array");
  }
  for (const json& entry : entries) {
    if (!entry.is_object()) continue;
    const std::string type = Text(entry, "type");
    if (type == "recording") {
      MergeRecording(entry, &info);
    } else if (type == "plan") {
      MergePlan(entry, this);
    } else if (type == "operators") {
      MergeOperators(entry, this);
    } else if (type == "schemas") {
      MergeSchemas(entry, this);
    } else if (type == "node") {
      images[Number<uint32_t>(entry, "image")].node_names[Number<uint64_t>(entry, "vtable")] =
          Text(entry, "name");
    } else if (type == "python_type") {
      images[Number<uint32_t>(entry, "image")]
          .python_type_names[Number<uint64_t>(entry, "address")] = Text(entry, "name");
    } else if (type == "symbol") {
      images[Number<uint32_t>(entry, "image")].symbol_names[Number<uint32_t>(entry, "number")] =
          Text(entry, "name");
    } else if (type == "module") {
      MergeModule(entry, this);
    } else if (type == "script") {
      MergeScript(entry, this);
    } else if (type == "process") {
      processes.push_back(ProcessFromJson(entry));
    } else if (type == "thread") {
      threads.push_back(ThreadEntry{Pid{Number<uint32_t>(entry, "pid")},
                                    Tid{Number<uint32_t>(entry, "tid")}, Text(entry, "name")});
    } else if (type == "job") {
      jobs[Number<uint32_t>(entry, "pid")] =
          JobEntry{OptionalNumber(entry, "rank"), OptionalNumber(entry, "world_size"),
                   JobFromJson(Member(entry, "job"))};
    } else if (type == "process_groups") {
      const auto pid = Number<uint32_t>(entry, "pid");
      process_groups[pid] = GroupsFromJson(entry);
      AddPlacesOfGroups(pid);
      process_group_counts.erase(pid);
      if (const auto count = OptionalNumber(entry, "count"); count && *count >= 0) {
        process_group_counts[pid] = *count;
      }
    } else if (const auto merge = kMerges.find(type); merge != kMerges.end()) {
      merge->second(entry, &info);
    } else if (type == "unsupported") {
      info.unsupported.push_back(UnsupportedFromJson(entry));
    } else if (type == "gpu") {
      info.gpu = Text(entry, "how");
    } else if (type == "tier_choice") {
      info.tier_choice = TierChoiceFromJson(entry);
    } else if (type == "budget") {
      info.budget = BudgetFromJson(entry);
    } else if (type == "cut") {
      info.window.start_ns = Nanoseconds(entry, "start_ns");
      is_part = true;
    } else if (type == "flight") {
      info.flight = FlightNote{Text(entry, "reason"), Number<double>(entry, "asked_s")};
    } else if (type == "end") {
      MergeEnd(entry, this);
    }
  }
  return absl::OkStatus();
}

struct MetadataWriter::Impl {
  json entries = json::array();
};

MetadataWriter::MetadataWriter() : impl_(std::make_unique<Impl>()) {}
MetadataWriter::~MetadataWriter() = default;
MetadataWriter::MetadataWriter(MetadataWriter&&) noexcept = default;
MetadataWriter& MetadataWriter::operator=(MetadataWriter&&) noexcept = default;

void MetadataWriter::AddRecording(const RecordingInfo& info) {
  json arguments = json::array();
  for (const std::string& argument : info.arguments) arguments.push_back(ToJsonText(argument));
  impl_->entries.push_back({{"type", "recording"},
                            {"version", info.proftrace_version},
                            {"tier", info.tier},
                            {"gpu", info.gpu},
                            {"trace_name", ToJsonText(info.trace_name)},
                            {"with_flops", info.with_flops},
                            {"activities", info.system.ToText()},
                            {"arguments", std::move(arguments)},
                            {"metadata", PairsToJson(info.metadata)},
                            {"host",
                             {{"name", ToJsonText(info.host.name)},
                              {"kernel", ToJsonText(info.host.kernel)},
                              {"cpus", info.host.cpus},
                              {"boot_id", info.host.boot_id},
                              {"machine_id_hash", info.host.machine_id_hash}}},
                            {"start_ns", info.window.start_ns},
                            {"monotonic_to_unix_ns", info.window.monotonic_to_unix_ns},
                            {"attach_s", info.window.attach_s}});
  if (info.metadata_json.empty()) return;
  impl_->entries.back()["metadata_json"] = PairsToJson(info.metadata_json);
}

void MetadataWriter::AddPlan(uint32_t plan, const std::vector<Label>& sites) {
  json rows = json::array();
  for (const Label& label : sites) rows.push_back(LabelToJson(label));
  impl_->entries.push_back({{"type", "plan"}, {"plan", plan}, {"sites", std::move(rows)}});
}

void MetadataWriter::AddOperators(uint32_t image, const std::vector<OperatorEntry>& operators) {
  json rows = json::array();
  for (const OperatorEntry& entry : operators) {
    rows.push_back(
        json::array({entry.address, ToJsonText(entry.name), ToJsonText(entry.overload_name)}));
  }
  impl_->entries.push_back(
      {{"type", "operators"}, {"image", image}, {"operators", std::move(rows)}});
}

void MetadataWriter::AddSchemas(uint32_t image, const std::vector<SchemaEntry>& schemas) {
  json rows = json::array();
  for (const SchemaEntry& entry : schemas) {
    rows.push_back(json::array({entry.address, ToJsonText(entry.schema)}));
  }
  impl_->entries.push_back({{"type", "schemas"}, {"image", image}, {"schemas", std::move(rows)}});
}

void MetadataWriter::AddNodeName(uint32_t image, uint64_t vtable, const std::string& name) {
  impl_->entries.push_back(
      {{"type", "node"}, {"image", image}, {"vtable", vtable}, {"name", ToJsonText(name)}});
}

void MetadataWriter::AddPythonTypeName(uint32_t image, uint64_t type, const std::string& name) {
  impl_->entries.push_back(
      {{"type", "python_type"}, {"image", image}, {"address", type}, {"name", ToJsonText(name)}});
}

void MetadataWriter::AddSymbolName(uint32_t image, uint32_t symbol, const std::string& name) {
  impl_->entries.push_back(
      {{"type", "symbol"}, {"image", image}, {"number", symbol}, {"name", ToJsonText(name)}});
}

void MetadataWriter::AddModulePath(const ModuleKey& module, int64_t told_ns,
                                   const std::string& path) {
  impl_->entries.push_back(ModuleToJson(module, told_ns, path));
}

void MetadataWriter::AddScript(const ScriptKey& key, const ScriptText& text) {
  impl_->entries.push_back(ScriptToJson(key, text));
}

void MetadataWriter::AddProcess(const ProcessEntry& process) {
  impl_->entries.push_back(ProcessToJson(process));
}

void MetadataWriter::AddJob(Pid pid, const JobEntry& job) {
  impl_->entries.push_back({{"type", "job"},
                            {"pid", Raw(pid)},
                            {"rank", OptionalNumber(job.rank)},
                            {"world_size", OptionalNumber(job.world_size)},
                            {"job", JobToJson(job.identity)}});
}

void MetadataWriter::AddThread(const ThreadEntry& thread) {
  impl_->entries.push_back({{"type", "thread"},
                            {"pid", Raw(thread.pid)},
                            {"tid", Raw(thread.tid)},
                            {"name", ToJsonText(thread.name)}});
}

void MetadataWriter::AddProcessGroups(Pid pid, const std::vector<ProcessGroup>& groups,
                                      std::optional<int> count) {
  json rows = json::array();
  for (const ProcessGroup& group : groups) {
    json row = {{"name", ToJsonText(group.name)},
                {"description", ToJsonText(group.description)},
                {"backend", ToJsonText(group.backend)},
                {"rank", group.rank},
                {"size", group.size}};
    if (!group.backend_config.empty()) row["config"] = ToJsonText(group.backend_config);
    if (!group.ranks.empty() && group.ranks.size() <= kMostRanks) row["ranks"] = group.ranks;
    if (group.address != 0) row["address"] = group.address;
    rows.push_back(std::move(row));
  }
  json entry = {{"type", "process_groups"}, {"pid", Raw(pid)}, {"groups", std::move(rows)}};
  if (count) entry["count"] = *count;
  impl_->entries.push_back(std::move(entry));
}

void MetadataWriter::AddClocks(const ClockSnapshot& clocks) {
  impl_->entries.push_back(ClocksToJson(clocks));
}

void MetadataWriter::AddCpuGroups(Pid pid, const std::optional<std::vector<std::string>>& groups) {
  impl_->entries.push_back(CpuGroupsToJson(pid, groups));
}

void MetadataWriter::AddCpuMask(Pid pid, const std::optional<CpuMask>& mask) {
  impl_->entries.push_back(CpuMaskToJson(pid, mask));
}

void MetadataWriter::AddHostState(const HostState& state) {
  impl_->entries.push_back(HostStateToJson(state));
}

void MetadataWriter::AddCpuQuotas(const CpuQuotaSnapshot& snapshot) {
  impl_->entries.push_back(CpuQuotasToJson(snapshot));
}

void MetadataWriter::AddUnsupported(const Unsupported& unsupported) {
  json entry = {{"type", "unsupported"},
                {"feature", unsupported.feature},
                {"reason", ToJsonText(unsupported.reason)}};
  if (unsupported.is_only_loaded) entry["only_loaded"] = true;
  if (!unsupported.row.empty()) entry["row"] = unsupported.row;
  impl_->entries.push_back(std::move(entry));
}

void MetadataWriter::AddGpu(const std::string& how) {
  impl_->entries.push_back({{"type", "gpu"}, {"how", how}});
}

void MetadataWriter::AddGpuAgent(const GpuAgent& agent) {
  impl_->entries.push_back(GpuAgentToJson(agent));
}

void MetadataWriter::AddSteps(const RecordedSteps& steps) {
  json times = json::array();
  for (const auto& [start_ns, end_ns] : steps.intervals) {
    if (times.size() == 2 * kMaxRecordedSteps) break;
    times.push_back(start_ns);
    times.push_back(end_ns);
  }
  impl_->entries.push_back({{"type", "steps"},
                            {"pid", Raw(steps.pid)},
                            {"tid", Raw(steps.tid)},
                            {"first_number", steps.first_number},
                            {"are_annotated", steps.are_annotated},
                            {"how", ToJsonText(steps.how)},
                            {"confidence", steps.confidence},
                            {"times", std::move(times)}});
}

void MetadataWriter::AddTierChoice(const TierChoice& choice) {
  impl_->entries.push_back(TierChoiceToJson(choice));
}

void MetadataWriter::AddBudget(const Budget& budget) {
  impl_->entries.push_back(BudgetToJson(budget));
}

void MetadataWriter::AddCut(int64_t start_ns) {
  impl_->entries.push_back({{"type", "cut"}, {"start_ns", start_ns}});
}

void MetadataWriter::AddFlightNote(const FlightNote& note) {
  impl_->entries.push_back(
      {{"type", "flight"}, {"reason", ToJsonText(note.reason)}, {"asked_s", note.asked_s}});
}

void MetadataWriter::AddEnd(const Window& window, const Cost& cost, const Ledger& kernel_ledger) {
  json ledger = json::object();
  ForEachCounter(kernel_ledger, [&ledger](std::string_view name, uint64_t value) {
    ledger[std::string(name)] = value;
  });
  impl_->entries.push_back(
      {{"type", "end"},
       {"start_ns", window.start_ns},
       {"duration_ns", window.duration_ns},
       {"monotonic_to_unix_ns", window.monotonic_to_unix_ns},
       {"detach_s", window.detach_s},
       {"cost",
        {{"tracer_cpu_s", cost.tracer_cpu_s},
         {"probe_hits", cost.probe_hits},
         {"probe_ns_per_hit", cost.probe_ns_per_hit},
         {"estimated_overhead_percent", cost.estimated_overhead_percent},
         {"basis", cost.basis},
         {"input_readings", cost.input_readings},
         {"jumps", cost.jumps},
         {"ns_per_jump", cost.ns_per_jump},
         {"ns_per_system_call", cost.system.call},
         {"ns_per_fault_record", cost.system.fault},
         {"ns_beside_fault", cost.system.fault_beside},
         {"input_ns_per_reading", NumberOrNull(cost.input_ns_per_reading)},
         {"busiest_thread_percent", NumberOrNull(cost.busiest_thread_percent)}}},
       {"ledger", std::move(ledger)}});
}

std::vector<std::string> MetadataWriter::TakeJson(size_t most_bytes) {
  std::vector<std::string> arrays;
  for (const json& entry : impl_->entries) {
    std::string text = DumpedJson(entry);
    if (arrays.empty() || arrays.back().size() + text.size() + 2 > most_bytes) {
      arrays.push_back("[" + std::move(text));
    } else {
      arrays.back() += "," + text;
    }
  }
  for (std::string& array : arrays) array += "]";
  impl_->entries = json::array();
  return arrays;
}

}  // namespace proftrace
