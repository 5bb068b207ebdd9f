// Finds the rank in a file's path, by the regular expression of --rank-of.
#pragma once

#include <cstdint>
#include <optional>
#include <regex>
#include <string>

#include "absl/status/statusor.h"

namespace proftrace {

class RankPattern {
 public:
  // `text` is an ECMAScript expression with a group (?P<rank>...) or (?<rank>...), as in
  // "rank_(?P<rank>[0-9]+)". Fails with ExitCode::kUsage.
  static absl::StatusOr<RankPattern> Parse(const std::string& text);

  // Returns the number in the group, where the expression is found in `path`.
  std::optional<int32_t> RankOf(const std::string& path) const;

 private:
  RankPattern(std::regex expression, size_t group)
      : expression_(std::move(expression)), group_(group) {}

  std::regex expression_;
  size_t group_;
};

}  // namespace proftrace
