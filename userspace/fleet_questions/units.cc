#include "userspace/fleet_questions/units.h"

#include <absl/strings/str_format.h>

#include <array>
#include <cmath>

namespace proftrace {

std::string TimeOf(const nlohmann::json& ns) {
  if (!ns.is_number()) return "";
  const double value = ns.get<double>();
  const double size = std::abs(value);
  if (size >= 1e9) return absl::StrFormat("%.2f s", value / 1e9);
  if (size >= 1e6) return absl::StrFormat("%.1f ms", value / 1e6);
  if (size >= 1e3) return absl::StrFormat("%.1f us", value / 1e3);
  return absl::StrFormat("%.0f ns", value);
}

std::string ShareOf(const nlohmann::json& share) {
  if (!share.is_number()) return "";
  const double percent = share.get<double>() * 100;
  if (std::abs(percent) >= 10) return absl::StrFormat("%.0f %%", percent);
  return absl::StrFormat("%.1f %%", percent);
}

std::string BytesOf(const nlohmann::json& bytes) {
  if (!bytes.is_number()) return "";
  constexpr std::array<const char*, 4> kUnits = {"B", "KiB", "MiB", "GiB"};
  double value = bytes.get<double>();
  size_t unit = 0;
  for (; unit + 1 < kUnits.size() && value >= 1024; ++unit) value /= 1024;
  return unit == 0 ? absl::StrFormat("%.0f B", value)
                   : absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

double NumberOr0(const nlohmann::json& cell) { return cell.is_number() ? cell.get<double>() : 0; }

}  // namespace proftrace
