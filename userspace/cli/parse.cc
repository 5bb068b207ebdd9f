#include "userspace/cli/parse.h"

#include <absl/time/time.h>

#include <charconv>
#include <cmath>

#include "userspace/base/exit_status.h"
#include "userspace/base/text.h"

namespace proftrace {

absl::StatusOr<double> ParseDuration(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const std::string unit(rest, end);
  const double scale = unit == "s" || unit.empty() ? 1
                       : unit == "ms"              ? 1e-3
                       : unit == "us"              ? 1e-6
                       : unit == "m"               ? 60
                       : unit == "h"               ? 3600
                                                   : 0;
  // Durations above a hundred years are taken for typing errors.
  if (error != std::errc() || scale == 0 || !(value > 0) || value * scale > 3.2e9) {
    return Fail(ExitCode::kUsage, "'" + text + "' is not a duration; write 10s, 250ms, 2m or 1h");
  }
  return value * scale;
}

absl::StatusOr<int64_t> ParseFrequency(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const std::string unit(rest, end);
  const double scale = unit == "Hz" || unit.empty() ? 1 : unit == "kHz" ? 1e3 : 0;
  const double hertz = value * scale;
  if (error != std::errc() || !(hertz >= 1) || hertz > 10'000) {
    return Fail(ExitCode::kUsage,
                "'" + text + "' is not a frequency from 1Hz to 10kHz; write 99Hz");
  }
  return std::llround(1e9 / hertz);
}

absl::StatusOr<double> ParsePercent(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const std::string unit(rest, end);
  if (error != std::errc() || (!unit.empty() && unit != "%") || !(value > 0) || value >= 100) {
    return Fail(ExitCode::kUsage,
                "'" + text + "' is not a part of the time between 0 and 100 %; write 5% or 0.5%");
  }
  return value;
}

absl::StatusOr<int64_t> ParseInstant(const std::string& text, int64_t now_ns) {
  if (text.starts_with("+") || text.starts_with("/")) {
    const absl::StatusOr<double> seconds = ParseDuration(text.substr(1));
    if (!seconds.ok()) return seconds.status();
    const auto duration_ns = static_cast<int64_t>(std::llround(*seconds * 1e9));
    if (duration_ns < 1) {
      return Fail(ExitCode::kUsage, "'" + text + "' is less than a nanosecond");
    }
    if (text[0] == '+') return now_ns + duration_ns;
    return (now_ns / duration_ns + 1) * duration_ns;
  }
  absl::Time time;
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, text, &time, &error)) {
    return Fail(ExitCode::kUsage, "'" + text +
                                      "' is not an instant; write 2026-11-22T02:35:00Z, +5s from "
                                      "now on, or /10s for the next multiple of 10 s");
  }
  return absl::ToUnixNanos(time);
}

absl::StatusOr<uint64_t> ParseSize(const std::string& text) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const std::string unit(rest, end);
  const int shift = unit.empty() ? 0 : unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : -1;
  if (error != std::errc() || shift < 0 || value == 0 || value > (UINT64_MAX >> 32)) {
    return Fail(ExitCode::kUsage, "'" + text + "' is not a size; write 64K, 32M or 1G");
  }
  return value << shift;
}

std::string WhyNoPid(const std::string& text) {
  constexpr uint32_t kMostPids = 4194304;  // the kernel's PID_MAX_LIMIT
  const auto pid = ParseNumber<uint32_t>(text);
  if (pid && *pid >= 1 && *pid <= kMostPids && text[0] != '0') return "";
  return "'" + text + "' is no PID: it has to be a number from 1 to " + std::to_string(kMostPids);
}

absl::StatusOr<std::pair<std::string, std::string>> ParseKeyValue(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return Fail(ExitCode::kUsage, "'" + text + "' is not KEY=VALUE");
  }
  return std::make_pair(text.substr(0, equals), text.substr(equals + 1));
}

}  // namespace proftrace
