#include "userspace/capture/processes/unprobed_points.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "bpf/abi/records.h"
#include "symbols/elf/code_image.h"

namespace proftrace {
namespace {

// Returns the kind of rows that a place with this role is for; nullopt for a place that ends rows
// of any kind.
std::optional<std::string> KindOf(uint8_t role) {
  switch (role) {
    case abi::PT_ROLE_END:
      return std::nullopt;
    case abi::PT_ROLE_CATCH:
    case abi::PT_ROLE_UNWOUND:
      return "rows that end by an exception";
    case abi::PT_ROLE_BOXED_BEGIN:
    case abi::PT_ROLE_BOXED_END:
    case abi::PT_ROLE_PLACED_BEGIN:
      return "operators that are called boxed, record_function() among them";
    case abi::PT_ROLE_NODE_BEGIN:
    case abi::PT_ROLE_PLACED_NODE:
      return "autograd nodes";
    case abi::PT_ROLE_GUARD_BEGIN:
    case abi::PT_ROLE_GUARD_END:
    case abi::PT_ROLE_GUARD_UNWOUND:
    case abi::PT_ROLE_ANNOTATION_GUARD:
    case abi::PT_ROLE_WORK_END:
      return "rows of at::RecordFunction in C++";
    case abi::PT_ROLE_WORK_TITLE:
    case abi::PT_ROLE_WORK_BEGIN:
    case abi::PT_ROLE_GROUP_CALL:
      return "rows of what c10d does on threads of its own";
    case abi::PT_ROLE_FRAME_BEGIN:
    case abi::PT_ROLE_FRAME_END:
      return "frames of TorchScript";
    case abi::PT_ROLE_RANGE_PUSH:
    case abi::PT_ROLE_RANGE_POP:
    case abi::PT_ROLE_RANGE_MARK:
      return "ranges of ITT and NVTX";
    case abi::PT_ROLE_ALLOCATION:
    case abi::PT_ROLE_FREE:
    case abi::PT_ROLE_CPU_OUT_OF_MEMORY:
    case abi::PT_ROLE_DEVICE_MEMORY:
    case abi::PT_ROLE_DEVICE_OUT_OF_MEMORY:
      return "allocations and frees";
    default:
      return "operators and functions";
  }
}

// Returns the function whose rows begin at a point; nullopt for other kinds of rows.
std::optional<std::string> FunctionOf(const ProbePoint& point, const std::vector<SiteInfo>& sites) {
  if (RoleOf(point) != abi::PT_ROLE_GUARD_BEGIN || SiteOf(point) >= sites.size()) {
    return std::nullopt;
  }
  const std::string& symbol = sites[SiteOf(point)].symbol;
  if (symbol.empty()) return std::nullopt;
  return "rows of function " + ReadableName(symbol);
}

}  // namespace

std::vector<Unsupported> DescribeUnprobed(const std::vector<ModulePlan>& modules,
                                          const std::vector<SiteInfo>& sites) {
  std::map<uint16_t, std::string> kinds;  // by site
  for (const ModulePlan& module : modules) {
    for (const ProbePoint& point : module.points) {
      if (const auto kind = KindOf(RoleOf(point))) kinds.emplace(SiteOf(point), *kind);
    }
  }
  std::map<std::string, size_t> places;
  for (const ModulePlan& module : modules) {
    for (const ProbePoint& point : module.points) {
      std::optional<std::string> kind = FunctionOf(point, sites);
      if (!kind) kind = KindOf(RoleOf(point));
      if (const auto known = kinds.find(SiteOf(point)); !kind && known != kinds.end()) {
        kind = known->second;
      }
      ++places[kind.value_or("operators and functions")];
    }
  }
  std::vector<Unsupported> gaps;
  for (const auto& [kind, count] : places) {
    gaps.push_back({kind, std::to_string(count) + (count == 1 ? " place" : " places") +
                              " in the code cannot have a jump, and there is no eBPF for a probe: "
                              "what is recorded there only is missing"});
  }
  return gaps;
}

}  // namespace proftrace
