#include "userspace/fleet/unbound_collectives.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include "absl/strings/str_format.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

struct UnboundCounts {
  uint64_t disagree = 0;
  uint64_t one_sided = 0;
  uint64_t without_some = 0;  // bound, but some ranks are left out
};

// Whether a collective that is not bound lacks what some rank did in it; if not, its ranks
// disagree.
bool IsOneSided(const FleetInput& input, std::span<const MomentRow> rows) {
  const auto call_of = [&](const MomentRow& row) -> const CollectiveCall& {
    return input.ranks[row.rank].calls[row.call];
  };
  bool is_one_sided = false;
  bool is_one_op = true;
  for (const MomentRow& row : rows) {
    is_one_sided = is_one_sided || call_of(row).kind == CollectiveKind::kNoDependence;
    is_one_op = is_one_op && call_of(row).op == call_of(rows.front()).op;
  }
  return is_one_sided && is_one_op;
}

}  // namespace

std::vector<std::string> SayWhatDoesNotBind(const FleetInput& input, const FleetMoments& moments) {
  std::map<std::pair<std::string, std::vector<int32_t>>, UnboundCounts> by_group;
  for (size_t moment = 0; moment < moments.moments.size(); ++moment) {
    const FleetMoment& of = moments.moments[moment];
    if (of.source != FleetMoment::Source::kCollective) continue;
    const std::span<const MomentRow> rows = moments.Rows(moment);
    const bool has_left_out =
        std::any_of(rows.begin(), rows.end(), [](const MomentRow& row) { return row.is_left_out; });
    if (of.is_bound && !has_left_out) continue;
    const FleetGroup& group = input.groups[of.group];
    UnboundCounts& counts = by_group[{group.name, group.ranks}];
    if (of.is_bound) {
      ++counts.without_some;
    } else {
      ++(IsOneSided(input, rows) ? counts.one_sided : counts.disagree);
    }
  }
  std::vector<std::string> sentences;
  const auto say = [&](const std::string& group, uint64_t count, const char* what) {
    if (count == 0) return;
    sentences.push_back(absl::StrFormat(
        "Group \"%s\": %s %s", group, OneOrMore(count, "collective is", "collectives are"), what));
  };
  for (const auto& [group, counts] : by_group) {
    say(group.first, counts.disagree,
        "not used for the clock: the ranks disagree on the operation, its root, the type or the "
        "size.");
    say(group.first, counts.one_sided,
        "not used for the clock: of a rank only the call was seen, or no root, or a part without "
        "elements.");
    say(group.first, counts.without_some,
        "used for the clock without the ranks of which only the call was seen, or no root, or a "
        "part without elements.");
  }
  return sentences;
}

}  // namespace proftrace
