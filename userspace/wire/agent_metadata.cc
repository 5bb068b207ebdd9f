#include "userspace/wire/agent_metadata.h"

#include <algorithm>
#include <utility>

#include "userspace/wire/metadata_json.h"

namespace proftrace {

using namespace metadata_json;  // NOLINT(google-build-using-namespace)

namespace {

// Visits the counters of an agent with their names in the file.
template <typename Agent, typename Visitor>
void ForEachAgentCounter(Agent& agent, Visitor&& visit) {
  visit("cupti_records", agent.cupti_records);
  visit("ring_records", agent.ring_records);
  visit("ring_dropped", agent.ring_dropped);
  visit("unread_records", agent.unread_records);
  visit("cupti_dropped", agent.cupti_dropped);
  visit("buffers_refused", agent.buffers_refused);
  visit("incomplete_buffers", agent.incomplete_buffers);
  visit("incomplete_bytes", agent.incomplete_bytes);
}

}  // namespace

json GpuAgentToJson(const GpuAgent& agent) {
  json entry = {{"type", "gpu_agent"},
                {"pid", Raw(agent.pid)},
                {"number", agent.number},
                {"state", agent.state},
                {"failure", agent.failure},
                {"message", ToJsonText(agent.message)},
                {"cupti_result", agent.cupti_result},
                {"cupti_version", agent.cupti_version},
                {"driver_version", agent.driver_version},
                {"runtime_version", agent.runtime_version}};
  ForEachAgentCounter(agent,
                      [&entry](const char* name, uint64_t counter) { entry[name] = counter; });
  return entry;
}

void MergeGpuAgent(const json& entry, RecordingInfo* info) {
  GpuAgent agent;
  agent.pid = Pid{Number<uint32_t>(entry, "pid")};
  agent.number = Number<uint32_t>(entry, "number");
  agent.state = Text(entry, "state");
  agent.failure = Text(entry, "failure");
  agent.message = Text(entry, "message");
  agent.cupti_result = Number<uint32_t>(entry, "cupti_result");
  agent.cupti_version = Number<uint32_t>(entry, "cupti_version");
  agent.driver_version = Number<uint32_t>(entry, "driver_version");
  agent.runtime_version = Number<uint32_t>(entry, "runtime_version");
  ForEachAgentCounter(agent, [&entry](const char* name, uint64_t& counter) {
    counter = Number<uint64_t>(entry, name);
  });
  const auto known = std::find_if(info->gpu_agents.begin(), info->gpu_agents.end(),
                                  [&agent](const GpuAgent& other) {
                                    return other.pid == agent.pid && other.number == agent.number;
                                  });
  if (known != info->gpu_agents.end()) {
    *known = std::move(agent);
  } else {
    info->gpu_agents.push_back(std::move(agent));
  }
}

}  // namespace proftrace
