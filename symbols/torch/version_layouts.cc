#include "symbols/torch/version_layouts.h"

#include <vector>

#include "userspace/base/text.h"

namespace proftrace {
namespace {

struct VersionNumbers {
  int major = 0;
  int minor = 0;
};

VersionNumbers NumbersOf(std::string_view torch_version) {
  const std::vector<std::string_view> parts = SplitText(torch_version, ".", /*skip_empty=*/false);
  if (parts.size() < 2) return {};
  return {ParseNumber<int>(parts[0]).value_or(0), ParseNumber<int>(parts[1]).value_or(0)};
}

}  // namespace

uint32_t PythonNodeObjectOffset(std::string_view torch_version) {
  const auto [major, minor] = NumbersOf(torch_version);
  if (major == 1 && minor == 13) return 392;
  if (major == 2 && minor <= 12) return 472;
  if (major == 2 && minor >= 13 && minor <= 15) return 112;
  return 0;
}

std::optional<NodeOffsets> NodeOffsetsOf(std::string_view torch_version) {
  const auto [major, minor] = NumbersOf(torch_version);
  if ((major == 1 && minor == 13) || (major == 2 && minor <= 12)) {
    return NodeOffsets{24, 48};
  }
  if (major == 2 && minor >= 13 && minor <= 15) return NodeOffsets{16, 40};
  return std::nullopt;
}

std::optional<PythonValueLayout> PythonValueLayoutOf(std::string_view torch_version,
                                                     std::string_view python_version) {
  const auto [major, minor] = NumbersOf(torch_version);
  const auto [python_major, python_minor] = NumbersOf(python_version);
  if (python_major != 3 || python_minor < 9 || python_minor > 14) {
    return std::nullopt;
  }
  PythonValueLayout layout;
  layout.items = python_minor == 14 ? 32 : 24;
  layout.long_tag = python_minor >= 12;
  layout.dict_kind = python_minor >= 13 ? 2 : python_minor >= 11 ? 1 : 0;
  // Up to 2.2 unpack_input() in torch/csrc/autograd/python_function.cpp keeps only tensors, later
  // numbers too.
  layout.shows_numbers = major > 2 || (major == 2 && minor >= 3);
  if ((major == 1 && minor == 13) || (major == 2 && minor <= 9)) {
    layout.tensor = 24;  // behind the flag of a c10::MaybeOwned
    return layout;
  }
  layout.tensor = 16;
  const bool is_known = major == 2 && minor >= 10 && minor <= 15;
  return is_known ? std::optional(layout) : std::nullopt;
}

uint8_t PythonTextOffset(std::string_view python_version) {
  const std::vector<std::string_view> parts = SplitText(python_version, ".", /*skip_empty=*/false);
  if (parts.size() < 2 || parts[0] != "3") return 0;
  const int minor = ParseNumber<int>(parts[1]).value_or(0);
  if (minor >= 7 && minor <= 11) return 48;
  return minor >= 12 && minor <= 14 ? 40 : 0;
}

}  // namespace proftrace
