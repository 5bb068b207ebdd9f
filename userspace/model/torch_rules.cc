#include "userspace/model/torch_rules.h"

#include <cmath>
#include <cstdint>
#include <cstdio>

namespace proftrace {

std::string FormatTorchDouble(double value) {
  const int kind = std::fpclassify(value);
  char text[64];
  constexpr double kInt64End = 9223372036854775808.0;  // 2^63
  const bool fits = value >= -kInt64End && value < kInt64End;
  if ((kind == FP_NORMAL || kind == FP_ZERO) && fits) {
    const auto whole = static_cast<int64_t>(value);
    if (static_cast<double>(whole) == value) {
      return std::to_string(whole) + ".";  // also of -0.0
    }
  }
  std::snprintf(text, sizeof(text), "%.17g", value);
  return text;
}

}  // namespace proftrace
