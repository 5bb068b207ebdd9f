#include "symbols/operator_registry.h"

#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace proftrace {
namespace {

// 2.15 registers 3700 operators; a job's own libraries add some hundreds.
constexpr size_t kMaxOperators = 100000;
constexpr size_t kMaxNameBytes = 512;
// A list node is {next, previous, OperatorDef}; the OperatorDef begins with OperatorName{name,
// overload_name}.
constexpr uint64_t kValueOffset = 16;
constexpr size_t kNewStringBytes = 32;
constexpr size_t kOldStringBytes = 8;

bool IsPlausibleName(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

// The strings of a node whose bytes were read already: short ones lie inside.
std::optional<std::string> NodeString(const TargetMemory& memory, uint64_t node,
                                      const uint8_t* bytes, size_t offset, bool old_abi) {
  if (!old_abi) {
    uint64_t words[2];
    std::memcpy(words, bytes + offset, sizeof(words));
    const uint64_t inline_text = node + offset + 16;
    if (words[0] == inline_text && words[1] < 16) {
      return std::string(reinterpret_cast<const char*>(bytes) + offset + 16, words[1]);
    }
  }
  return ReadStdString(memory, node + offset, old_abi, kMaxNameBytes);
}

}  // namespace

std::vector<OperatorInfo> ReadOperatorList(const TargetMemory& memory, uint64_t slot,
                                           bool old_abi) {
  std::vector<OperatorInfo> operators;
  const auto head = memory.ReadWord(slot);
  if (!head || *head == 0) return operators;
  const size_t string_bytes = old_abi ? kOldStringBytes : kNewStringBytes;
  const size_t node_bytes = kValueOffset + 2 * string_bytes;
  absl::flat_hash_set<uint64_t> seen;
  auto node = memory.ReadWord(*head);
  while (node && *node != *head && operators.size() < kMaxOperators && seen.insert(*node).second) {
    uint8_t bytes[kValueOffset + 2 * kNewStringBytes];
    if (!memory.Read(*node, bytes, node_bytes)) break;
    const auto name = NodeString(memory, *node, bytes, kValueOffset, old_abi);
    const auto overload = NodeString(memory, *node, bytes, kValueOffset + string_bytes, old_abi);
    if (!name || !overload || name->empty() || !IsPlausibleName(*name) ||
        !IsPlausibleName(*overload)) {
      break;
    }
    operators.push_back({*node + kValueOffset, *name, *overload, ""});
    uint64_t next;
    std::memcpy(&next, bytes, sizeof(next));
    node = next;
  }
  std::sort(operators.begin(), operators.end(),
            [](const auto& a, const auto& b) { return a.address < b.address; });
  return operators;
}

std::string NameOfOperatorNode(const TargetMemory& memory, uint64_t node, bool old_abi) {
  return ReadStdString(memory, node + kValueOffset, old_abi, kMaxNameBytes).value_or("");
}

std::string OperatorSymbolIdentifier(std::string_view name, std::string_view overload_name) {
  const size_t colons = name.find("::");
  if (colons != std::string_view::npos) name.remove_prefix(colons + 2);
  if (overload_name.empty()) return std::string(name);
  return std::string(name) + "_" + std::string(overload_name);
}

}  // namespace proftrace
