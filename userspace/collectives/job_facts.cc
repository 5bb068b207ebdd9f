#include "userspace/collectives/job_facts.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "userspace/base/text.h"
#include "userspace/collectives/json_text.h"

namespace proftrace {
namespace {

using Json = nlohmann::json;

std::optional<int64_t> NumberOf(const Json& object, const char* key) {
  const auto at = object.find(key);
  if (at == object.end()) return std::nullopt;
  if (at->is_number_integer()) return at->get<int64_t>();
  if (at->is_string()) return ParseNumber<int64_t>(at->get_ref<const std::string&>());
  return std::nullopt;
}

std::string TextOf(const Json& object, const char* key) {
  const auto at = object.find(key);
  if (at == object.end()) return "";
  if (at->is_string()) return at->get<std::string>();
  return at->is_number() ? at->dump() : "";
}

std::optional<int32_t> SmallNumberOf(const Json& object, const char* key) {
  const std::optional<int64_t> number = NumberOf(object, key);
  if (!number || *number < 0 || *number > std::numeric_limits<int32_t>::max()) return std::nullopt;
  return static_cast<int32_t>(*number);
}

std::vector<int32_t> RanksIn(const Json& object) {
  const auto at = object.find("ranks");
  if (at == object.end()) return {};
  bool is_cut = false;
  std::vector<int32_t> ranks =
      ReadRanks(at->is_string() ? at->get<std::string>() : at->dump(), &is_cut);
  if (is_cut) ranks.clear();
  return ranks;
}

GroupFacts GroupIn(const Json& object, const std::string& name) {
  GroupFacts group;
  group.name = name.empty() ? TextOf(object, "pg_name") : name;
  group.backend = TextOf(object, "backend_config");
  if (group.backend.empty()) group.backend = TextOf(object, "backend");
  group.ranks = RanksIn(object);
  group.size = NumberOf(object, "pg_size").value_or(static_cast<int64_t>(group.ranks.size()));
  return group;
}

}  // namespace

bool GroupFacts::may_be_gloo() const { return backend.empty() || Contains(backend, "gloo"); }

std::vector<int32_t> JobFacts::AllRanks() const {
  std::vector<int32_t> ranks;
  if (!world_size || static_cast<size_t>(*world_size) > kMostRanksOfGroup) return ranks;
  ranks.resize(static_cast<size_t>(*world_size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::vector<int32_t> ReadRanks(std::string_view text, bool* is_cut) {
  std::vector<int32_t> ranks;
  *is_cut = text.empty();
  for (const std::string_view part : SplitText(text, "[], \n\r\t()", /*skip_empty=*/true)) {
    const std::optional<int32_t> rank = ParseNumber<int32_t>(part);
    if (!rank || *rank < 0 || ranks.size() >= kMostRanksOfGroup) {
      *is_cut = true;
      continue;
    }
    ranks.push_back(*rank);
  }
  return ranks;
}

JobFacts ReadDistributedInfo(std::string_view value) {
  JobFacts facts;
  std::string text(value);
  if (const auto source = JsonStringSource(value)) text = UnescapedJson(*source);
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return facts;
  facts.rank = SmallNumberOf(json, "rank");
  facts.world_size = SmallNumberOf(json, "world_size");
  facts.group_count = NumberOf(json, "pg_count");
  auto groups = json.find("pg_config");
  Json of_text;
  if (groups != json.end() && groups->is_string()) {
    of_text = Json::parse(groups->get_ref<const std::string&>(), nullptr, false);
  }
  const Json& config = groups == json.end() ? of_text : groups->is_string() ? of_text : *groups;
  if (config.is_array()) {
    for (const Json& group : config) {
      if (group.is_object()) facts.groups.push_back(GroupIn(group, ""));
    }
  } else if (config.is_object()) {
    for (const auto& [name, group] : config.items()) {
      if (group.is_object()) facts.groups.push_back(GroupIn(group, name));
    }
  }
  return facts;
}

}  // namespace proftrace
