#include "exporters/args/distributed_info.h"

#include <vector>

#include "exporters/sinks/json_writer.h"

namespace proftrace {
namespace {

// A list of more ranks than this is left out, because it is in the head of the trace.
constexpr int kMostRanks = 8192;

// Returns a group's ranks. For a group of all processes of the job they are known even if they were
// not read.
std::vector<int> RanksOf(const ProcessGroup& group, const ProcessGroup& all) {
  std::vector<int> ranks = group.ranks;
  if (!ranks.empty() || group.size != all.size || group.size > kMostRanks) return ranks;
  for (int rank = 0; rank < group.size; ++rank) ranks.push_back(rank);
  return ranks;
}

void WriteGroup(const ProcessGroup& group, const ProcessGroup& all, JsonText* json) {
  json->BeginObject();
  json->Key("pg_name").String(group.name);
  json->Key("pg_desc").String(group.description);
  json->Key("backend_config")
      .String(group.backend_config.empty() ? group.backend : group.backend_config);
  json->Key("pg_size").Integer(group.size);
  if (const std::vector<int> ranks = RanksOf(group, all); !ranks.empty()) {
    json->Key("ranks").BeginArray();
    for (const int rank : ranks) json->Integer(rank);
    json->EndArray();
  }
  json->EndObject();
}

}  // namespace

const Target* RankedTarget(const RecordingInfo& info, std::optional<int> rank) {
  const Target* ranked = nullptr;
  for (const Target& target : info.targets) {
    if (!target.rank.has_value() || target.rank != rank.value_or(*target.rank)) continue;
    if (ranked != nullptr &&
        (*ranked->rank != *target.rank || ranked->world_size != target.world_size)) {
      return nullptr;
    }
    if (ranked == nullptr || target.process_groups.size() > ranked->process_groups.size()) {
      ranked = &target;
    }
  }
  return ranked;
}

std::string DistributedInfo(const Target& target) {
  JsonText json{StringText()};
  json.BeginObject();
  const ProcessGroup* all = DefaultGroup(target.process_groups);
  if (all != nullptr && !all->backend.empty()) json.Key("backend").String(all->backend);
  json.Key("rank").Integer(*target.rank);
  if (target.world_size.has_value()) json.Key("world_size").Integer(*target.world_size);
  if (target.process_group_count.has_value()) {
    json.Key("pg_count").Integer(*target.process_group_count);
  }
  if (all != nullptr && !all->name.empty()) {
    json.Key("pg_config").BeginArray();
    for (const ProcessGroup& group : target.process_groups) WriteGroup(group, *all, &json);
    json.EndArray();
  }
  json.EndObject();
  return json.Done().Take();
}

}  // namespace proftrace
