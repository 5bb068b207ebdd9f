#include "userspace/wire/process_metadata.h"

#include <string>
#include <utility>

#include "userspace/wire/metadata_json.h"

namespace proftrace {

using namespace metadata_json;  // NOLINT(google-build-using-namespace)

namespace {

// The most namespaces that are read, which is more than the kernel nests (MAX_PID_NS_LEVEL, 32, and
// the first one).
constexpr size_t kMostPidNamespaces = 64;

// Returns the numbers; empty unless all of them are possible.
std::vector<uint32_t> NamespacePidsFromJson(const json& list) {
  if (!list.is_array()) return {};
  std::vector<uint32_t> pids;
  for (const json& item : list) {
    const std::optional<uint32_t> pid = WholeNumber<uint32_t>(item);
    if (!pid || pids.size() >= kMostPidNamespaces) return {};
    pids.push_back(*pid);
  }
  return pids;
}

}  // namespace

json JobToJson(const JobIdentity& job) {
  json object = json::object();
  ForEachJobField(job, [&object](const JobField& field, const auto& value) {
    if constexpr (std::is_same_v<decltype(value), const std::string&>) {
      if (!value.empty()) object[field.key] = ToJsonText(value);
    } else {
      if (value) object[field.key] = *value;
    }
  });
  return object;
}

JobIdentity JobFromJson(const json& object) {
  JobIdentity job;
  ForEachJobField(job, [&object](const JobField& field, auto& value) {
    if constexpr (std::is_same_v<decltype(value), std::string&>) {
      value = Text(object, field.key);
      if (value.size() > kMostJobTextBytes) value.clear();
    } else {
      value = WholeNumber<uint32_t>(Member(object, field.key));
    }
  });
  return job;
}

namespace {

json OffsetToJson(const std::optional<int64_t>& ns) { return ns ? json(*ns) : json(); }

}  // namespace

json ProcessToJson(const ProcessEntry& process) {
  const Target& target = process.target;
  json cmdline = json::array();
  for (const std::string& argument : target.cmdline) cmdline.push_back(ToJsonText(argument));
  json python_paths = json::array();
  for (const std::string& path : target.python_paths) python_paths.push_back(ToJsonText(path));
  return {{"type", "process"},
          {"plan", process.plan},
          {"image", process.image},
          {"pid", Raw(target.pid)},
          {"ppid", Raw(target.ppid)},
          {"comm", ToJsonText(target.comm)},
          {"exe", ToJsonText(target.exe)},
          {"cmdline", std::move(cmdline)},
          {"python_version", target.python_version},
          {"torch_version", ToJsonText(target.torch_version)},
          {"torch_build_id", target.torch_build_id},
          {"cuda_version", target.cuda_version},
          {"rank", OptionalNumber(target.rank)},
          {"world_size", OptionalNumber(target.world_size)},
          {"threads", target.threads},
          {"followed", target.followed},
          {"could_run_ns", target.could_run_ns},
          {"probes_begin_ns", target.probes_begin_ns},
          {"probes_on_ns", target.probes_on_ns},
          {"operator_count", target.operator_count},
          {"inputs", target.inputs_recorded},
          {"memory", target.memory_recorded},
          {"stacks", target.stacks_recorded},
          {"python_paths", std::move(python_paths)},
          {"job", JobToJson(target.job)},
          {"namespace_pids", target.namespace_pids},
          {"pid_namespace", target.pid_namespace},
          {"start_ticks", target.start_ticks},
          {"monotonic_offset_ns", OffsetToJson(target.monotonic_offset_ns)},
          {"boottime_offset_ns", OffsetToJson(target.boottime_offset_ns)},
          {"control_group", ToJsonText(target.control_group)}};
}

ProcessEntry ProcessFromJson(const json& entry) {
  ProcessEntry process;
  process.plan = Number<uint32_t>(entry, "plan");
  process.image = Number<uint32_t>(entry, "image");
  Target& target = process.target;
  target.pid = Pid{Number<uint32_t>(entry, "pid")};
  target.ppid = Pid{Number<uint32_t>(entry, "ppid")};
  target.comm = Text(entry, "comm");
  target.exe = Text(entry, "exe");
  for (const json& argument : Member(entry, "cmdline")) {
    if (argument.is_string()) target.cmdline.push_back(FromJsonText(argument.get<std::string>()));
  }
  target.python_version = Text(entry, "python_version");
  target.torch_version = Text(entry, "torch_version");
  target.torch_build_id = Text(entry, "torch_build_id");
  target.cuda_version = Text(entry, "cuda_version");
  target.rank = OptionalNumber(entry, "rank");
  target.world_size = OptionalNumber(entry, "world_size");
  target.threads = Number<uint32_t>(entry, "threads");
  target.followed = Flag(entry, "followed");
  target.could_run_ns = Nanoseconds(entry, "could_run_ns");
  target.probes_begin_ns = Nanoseconds(entry, "probes_begin_ns");
  target.probes_on_ns = Nanoseconds(entry, "probes_on_ns");
  target.operator_count = Number<uint32_t>(entry, "operator_count");
  target.inputs_recorded = Flag(entry, "inputs");
  target.memory_recorded = Flag(entry, "memory");
  target.stacks_recorded = Flag(entry, "stacks");
  for (const json& path : Member(entry, "python_paths")) {
    if (path.is_string()) target.python_paths.push_back(FromJsonText(path.get<std::string>()));
  }
  target.job = JobFromJson(Member(entry, "job"));
  target.namespace_pids = NamespacePidsFromJson(Member(entry, "namespace_pids"));
  target.pid_namespace = Number<uint64_t>(entry, "pid_namespace");
  target.start_ticks = Number<uint64_t>(entry, "start_ticks");
  target.monotonic_offset_ns = WholeNumber<int64_t>(Member(entry, "monotonic_offset_ns"));
  target.boottime_offset_ns = WholeNumber<int64_t>(Member(entry, "boottime_offset_ns"));
  target.control_group = Text(entry, "control_group");
  return process;
}

}  // namespace proftrace
