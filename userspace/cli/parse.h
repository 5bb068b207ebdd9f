// Values of options: durations, sizes, KEY=VALUE.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <utility>

namespace proftrace {

// "10", "10s", "250ms", "2m" in seconds. Fails with kUsage for anything else, and for nothing or
// less.
absl::StatusOr<double> ParseDuration(const std::string& text);

// "4096", "64K", "32M", "1G" in bytes.
absl::StatusOr<uint64_t> ParseSize(const std::string& text);

absl::StatusOr<std::pair<std::string, std::string>> ParseKeyValue(const std::string& text);

}  // namespace proftrace
