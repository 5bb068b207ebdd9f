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

// "99Hz", "1kHz", "99" (a second) as the nanoseconds in between: 1 Hz to 10 kHz.
absl::StatusOr<int64_t> ParseFrequency(const std::string& text);

// "5%", "5", "0.5%": more than 0 and less than 100. Fails with kUsage for anything else.
absl::StatusOr<double> ParsePercent(const std::string& text);

// Returns an instant in nanoseconds since the Unix epoch: RFC 3339 ("2026-11-22T02:35:00Z", with a
// fraction or an offset), "+5s" from `now_ns` on, or "/10s", the next multiple of that many seconds
// since the epoch: the same instant on all hosts whose clocks agree.
absl::StatusOr<int64_t> ParseInstant(const std::string& text, int64_t now_ns);

// "4096", "64K", "32M", "1G" in bytes.
absl::StatusOr<uint64_t> ParseSize(const std::string& text);

// Says why `text` is no number of a process or thread; empty where it is one. Digits alone: with a
// 0 or 0x before them the option's own reading takes another base.
std::string WhyNoPid(const std::string& text);

absl::StatusOr<std::pair<std::string, std::string>> ParseKeyValue(const std::string& text);

}  // namespace proftrace
