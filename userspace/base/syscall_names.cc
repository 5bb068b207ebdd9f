#include "userspace/base/syscall_names.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

namespace proftrace {
namespace {

constexpr std::pair<uint64_t, std::string_view> kNames[] = {
#include "userspace/base/syscall_names.inc"
};

}  // namespace

std::string SystemCallName(uint64_t number) {
  const auto* found = std::find_if(std::begin(kNames), std::end(kNames),
                                   [number](const auto& name) { return name.first == number; });
  if (found != std::end(kNames)) return std::string(found->second);
  return "system call " + std::to_string(number);
}

}  // namespace proftrace
