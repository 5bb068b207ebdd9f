#include "exporters/text/summary_json.h"

#include <array>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "exporters/sinks/escape.h"
#include "exporters/text/key_averages_json.h"
#include "userspace/aggregate/cpu_throttling.h"
#include "userspace/aggregate/sample_text.h"
#include "userspace/base/saturating.h"

namespace proftrace {
namespace {

constexpr int kSchemaVersion = 1;

template <typename T>
OrderedJson NumberOrNull(bool is_known, T number) {
  return is_known ? OrderedJson(number) : OrderedJson(nullptr);
}

OrderedJson TextList(const std::vector<std::string>& texts) {
  OrderedJson list = OrderedJson::array();
  for (const std::string& text : texts) list.push_back(ToValidUtf8(text));
  return list;
}

template <typename T>
OrderedJson NumberOrNull(const std::optional<T>& number) {
  return number.has_value() ? OrderedJson(*number) : OrderedJson(nullptr);
}

OrderedJson ClocksJson(const ClockSnapshot& clocks) {
  OrderedJson json = {{"monotonic_ns", clocks.monotonic_ns},
                      {"monotonic_raw_ns", NumberOrNull(clocks.monotonic_raw_ns)},
                      {"boottime_ns", NumberOrNull(clocks.boottime_ns)},
                      {"realtime_ns", NumberOrNull(clocks.realtime_ns)},
                      {"tai_ns", NumberOrNull(clocks.tai_ns)},
                      {"gap_ns", clocks.gap_ns}};
  json["ntp"] = nullptr;
  if (!clocks.ntp.has_value()) return json;
  json["ntp"] = {{"synchronised", clocks.ntp->is_synchronised},
                 {"max_error_ns", clocks.ntp->max_error_ns},
                 {"estimated_error_ns", clocks.ntp->estimated_error_ns},
                 {"offset_ns", clocks.ntp->offset_ns},
                 {"frequency_ppb", clocks.ntp->frequency_ppb},
                 {"status", clocks.ntp->status}};
  return json;
}

OrderedJson GroupsJson(const std::vector<ProcessGroup>& groups) {
  OrderedJson list = OrderedJson::array();
  for (const ProcessGroup& group : groups) {
    OrderedJson json = {{"name", TextOrNull(group.name)},
                        {"description", TextOrNull(group.description)},
                        {"backend", TextOrNull(group.backend)},
                        {"backend_config", TextOrNull(group.backend_config)},
                        {"rank", group.rank},
                        {"size", group.size}};
    if (!group.ranks.empty()) json["ranks"] = group.ranks;
    list.push_back(std::move(json));
  }
  return list;
}

// Returns the last state of the process's last agent; null: it had no agent.
OrderedJson AgentState(const RecordingInfo& info, Pid pid) {
  std::string state;
  for (const GpuAgent& agent : info.gpu_agents) {
    if (agent.pid == pid) state = agent.state;
  }
  return TextOrNull(state);
}

// Returns how long the process may have run operators in the window before its probes were live.
double ProbesLateMs(const RecordingInfo& info, const Target& target) {
  if (target.could_run_ns == 0) return 0;
  const int64_t from_ns = std::max(target.could_run_ns, info.window.start_ns);
  return static_cast<double>(std::max<int64_t>(0, target.probes_on_ns - from_ns)) * 1e-6;
}

// Returns the known facts of the job that a process is a part of.
OrderedJson JobJson(const JobIdentity& job) {
  OrderedJson json;
  ForEachJobField(job, [&json](const JobField& field, const auto& value) {
    if constexpr (std::is_same_v<decltype(value), const std::string&>) {
      if (!value.empty()) json[field.key] = ToValidUtf8(value);
    } else {
      if (value) json[field.key] = *value;
    }
  });
  return json;
}

// Returns the quotas of CPU time of a process, and how far they were used up in the window.
OrderedJson QuotasJson(const std::vector<CpuQuota>& quotas) {
  OrderedJson list = OrderedJson::array();
  for (const CpuQuota& quota : quotas) {
    list.push_back(
        {{"group", ToValidUtf8(quota.group)},
         {"cpus", static_cast<double>(quota.quota_ns) / static_cast<double>(quota.period_ns)},
         {"period_ms", static_cast<double>(quota.period_ns) * 1e-6},
         {"periods", quota.periods},
         {"throttled_periods", quota.throttled_periods},
         {"throttled_ms", static_cast<double>(quota.throttled_ns) * 1e-6}});
  }
  return list;
}

OrderedJson TargetJson(const RecordingInfo& info, const Target& target) {
  OrderedJson json = {{"pid", Raw(target.pid)},
                      {"ppid", Raw(target.ppid)},
                      {"comm", ToValidUtf8(target.comm)},
                      {"exe", ToValidUtf8(target.exe)},
                      {"cmdline", TextList(target.cmdline)},
                      {"python_version", TextOrNull(target.python_version)},
                      {"torch_version", TextOrNull(target.torch_version)},
                      {"torch_build_id", TextOrNull(target.torch_build_id)},
                      {"cuda_version", TextOrNull(target.cuda_version)},
                      {"rank", NumberOrNull(target.rank)},
                      {"world_size", NumberOrNull(target.world_size)},
                      {"threads", target.threads},
                      {"followed", target.followed},
                      {"probes_late_ms", ProbesLateMs(info, target)},
                      {"operators_probed", target.operator_count},
                      {"gpu_agent", AgentState(info, target.pid)}};
  if (target.job != JobIdentity()) json["job"] = JobJson(target.job);
  if (!target.namespace_pids.empty()) {
    json["namespace_pids"] = target.namespace_pids;
    json["pid_namespace"] = NumberOrNull(target.pid_namespace != 0, target.pid_namespace);
    json["start_ticks"] = target.start_ticks;
  }
  if (target.monotonic_offset_ns) json["monotonic_offset_ns"] = *target.monotonic_offset_ns;
  if (target.boottime_offset_ns) json["boottime_offset_ns"] = *target.boottime_offset_ns;
  if (!target.control_group.empty()) json["control_group"] = ToValidUtf8(target.control_group);
  const auto mask = info.cpu_masks.find(Raw(target.pid));
  if (mask != info.cpu_masks.end()) json["cpus_allowed"] = ToValidUtf8(mask->second.cpus);
  if (const auto quotas = ThrottlingOf(info, target.pid)) json["cpu_quotas"] = QuotasJson(*quotas);
  if (!target.process_groups.empty()) {
    json["process_groups"] = GroupsJson(target.process_groups);
    json["process_group_count"] = NumberOrNull(target.process_group_count);
  }
  return json;
}

// Returns figures of CPU memory. A total that a loss made unknown is null.
OrderedJson MemoryJson(const Timeline& timeline) {
  uint64_t allocations = 0;
  uint64_t frees = 0;
  uint64_t out_of_memory = 0;
  int64_t allocated = 0;
  int64_t freed = 0;
  const MemoryEventStore& events = timeline.memory_events();
  for (uint32_t i = 0; i < events.size(); ++i) {
    const MemoryEvent& event = events.at(i);
    if (event.kind == MemoryEventKind::kOutOfMemory) {
      ++out_of_memory;
    } else if (event.is_cpu()) {
      ++(event.bytes > 0 ? allocations : frees);
      int64_t& sum = event.bytes > 0 ? allocated : freed;
      sum = SaturatingSum(sum, event.bytes);
    }
  }
  const MemorySummary& summary = timeline.memory_summary();
  return {{"cpu_allocations", allocations},
          {"cpu_allocated_bytes", allocated},
          {"cpu_frees", frees},
          {"cpu_freed_bytes", SaturatingDifference(0, freed)},
          {"out_of_memory", out_of_memory},
          {"empty_blocks", summary.empty_blocks},
          {"unknown_frees", summary.unknown_frees},
          {"reused_blocks", summary.reused_blocks},
          {"untracked", summary.untracked},
          {"totals_known", summary.inconsistent_processes == 0}};
}

// Adds the number of rows of each kind in events.csv.
void AddDeviceCounts(const Timeline& timeline, OrderedJson* events) {
  static constexpr const char* kNames[kDeviceActivityKinds] = {
      "kernels",     "memcpys",   "memsets",    "cuda_graphs",      "synchronizations",
      "cuda_events", "overheads", "gpu_memory", "gpu_memory_pools", "markers"};
  uint64_t counts[kDeviceActivityKinds] = {};
  const DeviceActivityStore& activities = timeline.device_activities();
  for (uint32_t i = 0; i < activities.size(); ++i) {
    ++counts[static_cast<size_t>(activities.at(i).kind)];
  }
  for (size_t kind = 0; kind < kDeviceActivityKinds; ++kind) {
    (*events)[kNames[kind]] = counts[kind];
  }
  (*events)["gpu_annotations"] = timeline.device_annotations().size();
}

// Returns the numbers of looks at threads, by what the threads did.
OrderedJson SamplesJson(const Timeline& timeline) {
  uint64_t all = 0;
  uint64_t cut = 0;
  std::map<SampleState, uint64_t> by_state;
  for (const Sample& sample : timeline.samples()) {
    all += sample.count;
    by_state[sample.state] += sample.count;
    if (sample.native_cut) cut += sample.count;
  }
  OrderedJson json = {{"period_ns", timeline.samples().front().period_ns}, {"all", all}};
  for (const SampleState state :
       {SampleState::kRunning, SampleState::kRunnable, SampleState::kSleeping,
        SampleState::kUninterruptible, SampleState::kStopped}) {
    json[std::string(SampleStateName(state))] = by_state[state];
  }
  json["native_frames_cut"] = cut;
  return json;
}

void AddSystemCounts(const Timeline& timeline, OrderedJson* events) {
  std::array<uint64_t, 4> counts{};
  uint64_t migrations = 0;
  for (uint32_t i = 0; i < timeline.system_event_count(); ++i) {
    const SystemEvent& event = timeline.system_event(i);
    ++counts[static_cast<size_t>(event.kind)];
    const bool moves = event.kind == SystemKind::kOffCpu && event.end == SpanEnd::kReturn &&
                       !event.open_at_begin && event.off_cpu.from_cpu != event.off_cpu.to_cpu;
    if (moves) ++migrations;
  }
  (*events)["syscalls"] = counts[static_cast<size_t>(SystemKind::kCall)];
  (*events)["sched"] = counts[static_cast<size_t>(SystemKind::kOffCpu)];
  (*events)["cpu_migrations"] = migrations;
  (*events)["faults"] = counts[static_cast<size_t>(SystemKind::kFault)];
  (*events)["io_requests"] = counts[static_cast<size_t>(SystemKind::kRequest)];
}

// Returns where the time of the thread that drives the job went, in microseconds.
OrderedJson TimeJson(const Timeline& timeline, const TimeBreakdown& time) {
  const auto uses_json = [](const TimeUses& uses) {
    OrderedJson json = OrderedJson::object();
    for (size_t use = 0; use < kTimeUses; ++use) {
      json[std::string(TimeUseName(static_cast<TimeUse>(use)))] =
          static_cast<double>(uses[use]) / 1000.0;
    }
    return json;
  };
  const Thread& thread = timeline.thread(time.thread);
  OrderedJson steps = OrderedJson::array();
  for (const TimeUses& uses : time.steps) steps.push_back(uses_json(uses));
  return {{"pid", Raw(thread.pid)},
          {"tid", Raw(thread.tid)},
          {"total_us", static_cast<double>(time.total_ns) / 1000.0},
          {"uses_us", uses_json(time.uses)},
          {"steps", std::move(steps)}};
}

// Returns why devices, and their busiest streams, had nothing to do.
OrderedJson IdleJson(const std::vector<DeviceIdle>& devices) {
  OrderedJson list = OrderedJson::array();
  for (const DeviceIdle& device : devices) {
    OrderedJson causes = OrderedJson::object();
    for (size_t cause = 0; cause < kIdleCauses; ++cause) {
      if (device.by_cause_ns[cause] == 0) continue;
      causes[std::string(IdleCauseName(static_cast<IdleCause>(cause)))] = device.by_cause_ns[cause];
    }
    list.push_back({{"pid", Raw(device.pid)},
                    {"device", device.device},
                    {"stream", NumberOrNull(device.stream.has_value(), device.stream.value_or(0))},
                    {"busy_ns", device.busy_ns},
                    {"idle_ns", device.idle_ns},
                    {"gaps", device.gaps.size()},
                    {"by_cause_ns", std::move(causes)}});
  }
  return list;
}

OrderedJson TierChoiceJson(const TierChoice& choice) {
  const bool is_counted = choice.probes_percent.has_value();
  return {{"limit_percent", choice.limit_percent},
          {"probes_percent", NumberOrNull(is_counted, choice.probes_percent.value_or(0))},
          {"operators_per_s", NumberOrNull(is_counted, choice.operators_per_s)},
          {"ns_per_operator", NumberOrNull(is_counted, choice.ns_per_operator)},
          {"tid", NumberOrNull(is_counted, Raw(choice.tid))},
          {"reason", ToValidUtf8(choice.reason)}};
}

}  // namespace

OrderedJson SummaryJson(const Timeline& timeline, const Aggregates& aggregates) {
  const SpanCounts& counts = aggregates.span_counts;
  const RecordingInfo& info = timeline.info();
  OrderedJson targets = OrderedJson::array();
  for (const Target& target : info.targets) targets.push_back(TargetJson(info, target));
  OrderedJson metadata = OrderedJson::object();
  for (const auto& [key, value] : info.metadata) metadata[ToValidUtf8(key)] = ToValidUtf8(value);
  for (const auto& [key, text] : info.metadata_json) {
    metadata[ToValidUtf8(key)] = ParseJson(text).value_or(OrderedJson(ToValidUtf8(text)));
  }

  OrderedJson json;
  json["schema_version"] = kSchemaVersion;
  json["proftrace"] = {{"version", ToValidUtf8(info.proftrace_version)},
                       {"tier", ToValidUtf8(info.tier)},
                       {"gpu", ToValidUtf8(info.gpu)},
                       {"arguments", TextList(info.arguments)}};
  if (info.tier_choice.has_value()) {
    json["proftrace"]["tier_choice"] = TierChoiceJson(*info.tier_choice);
  }
  json["trace_name"] = TextOrNull(info.trace_name);
  json["metadata"] = std::move(metadata);
  json["host"] = {{"name", ToValidUtf8(info.host.name)},
                  {"kernel", ToValidUtf8(info.host.kernel)},
                  {"cpus", info.host.cpus}};
  if (!info.host.boot_id.empty()) json["host"]["boot_id"] = info.host.boot_id;
  if (!info.host.machine_id_hash.empty()) {
    json["host"]["machine_id_hash"] = info.host.machine_id_hash;
  }
  json["target"] = std::move(targets);
  json["window"] = {{"start_unix_ns", NumberOrNull(info.window.monotonic_to_unix_ns != 0,
                                                   timeline.ToUnixNs(info.window.start_ns))},
                    {"duration_ns", NumberOrNull(info.has_end, info.window.duration_ns)},
                    {"attach_s", info.window.attach_s},
                    {"detach_s", NumberOrNull(info.has_end, info.window.detach_s)}};
  if (!info.clocks.empty()) {
    json["clocks"] = {{"snapshots", info.clocks.size()},
                      {"first", ClocksJson(info.clocks.front())},
                      {"last", ClocksJson(info.clocks.back())}};
  }
  if (info.flight.has_value()) {
    json["flight_recorder"] = {{"reason", ToValidUtf8(info.flight->reason)},
                               {"asked_s", info.flight->asked_s}};
  }
  json["events"] = {{"operators", counts.of(SpanKind::kOperator)},
                    {"annotations", counts.of(SpanKind::kAnnotation)},
                    {"autograd", counts.of(SpanKind::kAutograd)},
                    {"runtime", counts.of(SpanKind::kRuntime)}};
  if (counts.of(SpanKind::kCollection) > 0) {
    json["events"]["collections"] = counts.of(SpanKind::kCollection);
  }
  if (timeline.has_stacks()) json["events"]["python"] = aggregates.python_rows.size();
  if (timeline.has_memory()) json["events"]["memory"] = timeline.memory_events().size();
  if (timeline.has_device_records()) AddDeviceCounts(timeline, &json["events"]);
  if (info.system.any()) AddSystemCounts(timeline, &json["events"]);
  json["ledger"] = LedgerJson(timeline.ledger());
  if (timeline.has_device_records()) {
    json["gpu"] = GpuJson(timeline);
    json["gpu"]["idle"] = IdleJson(aggregates.device_idle);
  }
  json["cost"] = CostJson(info);
  if (timeline.has_memory()) json["memory"] = MemoryJson(timeline);
  if (!timeline.samples().empty()) json["samples"] = SamplesJson(timeline);
  const KeyAverages& averages = aggregates.key_averages;
  json["key_averages"] = {{"processes", ProcessesJson(averages)},
                          {"total_average", KeyAverageJson(TotalAverage(averages), averages)}};
  json["steps"] = StepsJson(timeline, aggregates.steps);
  if (aggregates.time.has_value()) json["time"] = TimeJson(timeline, *aggregates.time);
  json["unsupported"] = UnsupportedJson(info);
  return json;
}

absl::Status ExportSummary(const Timeline& timeline, const Aggregates& aggregates, ByteSink& sink) {
  return WriteJson(SummaryJson(timeline, aggregates), sink);
}

}  // namespace proftrace
