#include "symbols/literal_search.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "symbols/exit_sites.h"

namespace proftrace {
namespace {

// torch/csrc/autograd/VariableTypeManual.cpp, the same in 1.13 to 2.15.
constexpr std::string_view kRowNames[] = {"detach", "detach_"};
constexpr size_t kLongestName = 7;
constexpr uint64_t kMaxFunctionBytes = 16384;

}  // namespace

std::optional<std::string> FindRowName(const CodeImage& image, const FunctionRange& function) {
  if (function.end <= function.start || function.end - function.start > kMaxFunctionBytes) {
    return std::nullopt;
  }
  std::vector<uint8_t> bytes(function.end - function.start);
  bytes.resize(image.ReadCode(function.start, bytes.data(), bytes.size()));
  std::optional<std::string> found;
  for (const Instruction& instruction : DecodeAll(bytes.data(), bytes.size(), function.start)) {
    const uint8_t* at = bytes.data() + (instruction.address - function.start);
    // lea reg, [rip + displacement]
    if (instruction.size != 7 || (at[0] & 0xfb) != 0x48 || at[1] != 0x8d || (at[2] & 0xc7) != 5) {
      continue;
    }
    int32_t displacement;
    std::memcpy(&displacement, at + 3, sizeof(displacement));
    char text[kLongestName + 1] = {};
    if (image.ReadCode(instruction.next() + static_cast<int64_t>(displacement), text,
                       sizeof(text)) != sizeof(text)) {
      continue;
    }
    for (const std::string_view name : kRowNames) {
      if (std::string_view(text, strnlen(text, sizeof(text))) != name) continue;
      if (found && *found != name) return std::nullopt;
      found = std::string(name);
    }
  }
  return found;
}

bool MakesOneRow(const FlowGraph& graph, const std::vector<uint64_t>& constructors) {
  const auto is_constructor = [&](uint32_t node) {
    const Instruction& instruction = graph.node(node).instruction;
    return graph.node(node).is_call &&
           std::binary_search(constructors.begin(), constructors.end(), instruction.target);
  };
  size_t calls = 0;
  for (uint32_t i = 0; i < graph.size(); ++i) calls += is_constructor(i);
  if (calls != 1) return false;
  const std::vector<uint32_t> mandatory = MandatoryNodes(graph);
  return std::any_of(mandatory.begin(), mandatory.end(), is_constructor);
}

}  // namespace proftrace
