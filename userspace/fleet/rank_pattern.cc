#include "userspace/fleet/rank_pattern.h"

#include <utility>

#include "userspace/base/exit_status.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

constexpr std::string_view kRankGroups[] = {"(?P<rank>", "(?<rank>"};

}  // namespace

absl::StatusOr<RankPattern> RankPattern::Parse(const std::string& text) {
  // std::regex has no named groups: the number of the group is counted instead.
  std::string plain;
  size_t groups = 0;
  size_t rank_group = 0;
  bool is_in_set = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const std::string_view rest = std::string_view(text).substr(at);
    if (text[at] == '\\') {
      plain += rest.substr(0, 2);
      ++at;
      continue;
    }
    if (text[at] == '[') is_in_set = true;
    if (text[at] == ']') is_in_set = false;
    if (!is_in_set && text[at] == '(') {
      bool is_rank = false;
      for (const std::string_view group : kRankGroups) {
        if (!rest.starts_with(group)) continue;
        is_rank = true;
        plain += '(';
        at += group.size() - 1;
        break;
      }
      if (is_rank || !rest.starts_with("(?")) ++groups;
      if (is_rank) {
        rank_group = groups;
        continue;
      }
    }
    plain += text[at];
  }
  if (rank_group == 0) {
    return Fail(ExitCode::kUsage, "--rank-of \"" + text +
                                      "\" has no group (?P<rank>...); give one, as in "
                                      "--rank-of 'rank_(?P<rank>[0-9]+)'");
  }
  try {
    return RankPattern(std::regex(plain), rank_group);
  } catch (const std::regex_error& error) {
    return Fail(ExitCode::kUsage,
                "--rank-of \"" + text + "\" is no regular expression: " + error.what());
  }
}

std::optional<int32_t> RankPattern::RankOf(const std::string& path) const {
  std::smatch match;
  if (!std::regex_search(path, match, expression_)) return std::nullopt;
  return ParseNumber<int32_t>(match[group_].str());
}

}  // namespace proftrace
