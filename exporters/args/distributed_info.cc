#include "exporters/args/distributed_info.h"

#include <vector>

#include "exporters/sinks/escape.h"

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
  std::string text = "{";
  const ProcessGroup* all = DefaultGroup(target.process_groups);
  if (all != nullptr && !all->backend.empty()) {
    text += "\"backend\": " + JsonQuoted(all->backend) + ", ";
  }
  text += "\"rank\": " + std::to_string(*target.rank);
  if (target.world_size.has_value()) {
    text += ", \"world_size\": " + std::to_string(*target.world_size);
  }
  if (target.process_group_count.has_value()) {
    text += ", \"pg_count\": " + std::to_string(*target.process_group_count);
  }
  if (all == nullptr || all->name.empty()) return text + "}";
  text += ", \"pg_config\": [";
  for (const ProcessGroup& group : target.process_groups) {
    if (&group != &target.process_groups.front()) text += ", ";
    text += "{\"pg_name\": " + JsonQuoted(group.name) +
            ", \"pg_desc\": " + JsonQuoted(group.description) + ", \"backend_config\": " +
            JsonQuoted(group.backend_config.empty() ? group.backend : group.backend_config) +
            ", \"pg_size\": " + std::to_string(group.size);
    if (const std::vector<int> ranks = RanksOf(group, *all); !ranks.empty()) {
      text += ", \"ranks\": [";
      for (size_t i = 0; i < ranks.size(); ++i) {
        text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
      }
      text += "]";
    }
    text += "}";
  }
  return text + "]}";
}

}  // namespace proftrace
