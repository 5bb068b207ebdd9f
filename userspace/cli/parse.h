// Parses values of options: durations, sizes, KEY=VALUE.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <utility>

namespace proftrace {

// Returns "10", "10s", "250ms" or "2m" in seconds. Fails with kUsage for any other text, and for 0
// and negative durations.
absl::StatusOr<double> ParseDuration(const std::string& text);

// Returns "99Hz", "1kHz" or "99" (per second) as the nanoseconds between two events; 1 Hz to 10
// kHz.
absl::StatusOr<int64_t> ParseFrequency(const std::string& text);

// Parses "5%", "5", "0.5%": more than 0 and less than 100. Fails with kUsage for any other text.
absl::StatusOr<double> ParsePercent(const std::string& text);

// Returns an instant in nanoseconds since the Unix epoch: RFC 3339 ("2026-11-22T02:35:00Z", with a
// fraction or an offset), "+5s" from `now_ns` on, or "/10s", the next multiple of that many seconds
// since the epoch: the same instant on all hosts whose clocks agree.
absl::StatusOr<int64_t> ParseInstant(const std::string& text, int64_t now_ns);

// Returns "4096", "64K", "32M" or "1G" in bytes.
absl::StatusOr<uint64_t> ParseSize(const std::string& text);

// Returns why `text` is not the number of a process or thread; empty where it is one. Only decimal
// digits are allowed, because the option parser would read a leading 0 or 0x as another base.
std::string WhyNoPid(const std::string& text);

absl::StatusOr<std::pair<std::string, std::string>> ParseKeyValue(const std::string& text);

}  // namespace proftrace
