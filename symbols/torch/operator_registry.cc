#include "symbols/torch/operator_registry.h"

#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "userspace/base/byte_view.h"

namespace proftrace {
namespace {

// 2.15 registers 3700 operators; a job's own libraries add some hundreds.
constexpr size_t kMaxOperators = 100000;
// How often a list that changes all the time is walked. A walk takes some milliseconds.
constexpr int kMostWalks = 16;
constexpr size_t kMaxNameBytes = 512;
// A list node is {next, previous, OperatorDef}; the OperatorDef begins with OperatorName{name,
// overload_name}.
constexpr uint64_t kValueOffset = 16;
constexpr size_t kNewStringBytes = 32;
constexpr size_t kOldStringBytes = 8;

bool IsPlausibleName(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

// Returns a string of a node whose bytes were read already. The characters of a short string are
// among these bytes.
std::optional<std::string> NodeString(const TargetMemory& memory, uint64_t node, ByteView bytes,
                                      size_t offset, bool old_abi) {
  if (!old_abi) {
    const auto words = bytes.Get<std::array<uint64_t, 2>>(offset);
    const uint64_t inline_text = node + offset + 16;
    if (words && (*words)[0] == inline_text && (*words)[1] < 16) {
      const ByteView text = bytes.From(offset + 16, (*words)[1]);
      return std::string(reinterpret_cast<const char*>(text.data()), text.size());
    }
  }
  return ReadStdString(memory, node + offset, old_abi, kMaxNameBytes);
}

// Walks once through the list whose sentinel is at `head`. Each node must point back to the node
// before it; a node that was removed meanwhile and whose memory is used again does not.
OperatorList WalkOperators(const TargetMemory& memory, uint64_t head, bool old_abi) {
  OperatorList list;
  const size_t string_bytes = old_abi ? kOldStringBytes : kNewStringBytes;
  const size_t node_bytes = kValueOffset + 2 * string_bytes;
  absl::flat_hash_set<uint64_t> seen;
  uint64_t last = head;
  auto node = memory.ReadWord(head);
  while (node && *node != head && list.operators.size() < kMaxOperators &&
         seen.insert(*node).second) {
    uint8_t bytes[kValueOffset + 2 * kNewStringBytes];
    if (!memory.Read(*node, bytes, node_bytes)) return list;
    const ByteView view(bytes, node_bytes);
    const auto links = view.Get<std::array<uint64_t, 2>>(0);  // next, previous
    if (!links || (*links)[1] != last) return list;
    const auto name = NodeString(memory, *node, view, kValueOffset, old_abi);
    const auto overload = NodeString(memory, *node, view, kValueOffset + string_bytes, old_abi);
    if (!name || !overload || name->empty() || !IsPlausibleName(*name) ||
        !IsPlausibleName(*overload)) {
      return list;
    }
    list.operators.push_back({*node + kValueOffset, *name, *overload, ""});
    last = *node;
    node = (*links)[0];
  }
  list.is_whole = node && *node == head && memory.ReadWord(head + 8) == last;
  return list;
}

}  // namespace

OperatorList ReadOperatorList(const TargetMemory& memory, uint64_t slot, bool old_abi) {
  OperatorList list;
  for (int i = 0; i < kMostWalks && !list.is_whole; ++i) {
    const auto head = memory.ReadWord(slot);
    if (!head || *head == 0) break;
    OperatorList walked = WalkOperators(memory, *head, old_abi);
    if (walked.is_whole || walked.operators.size() > list.operators.size()) {
      list = std::move(walked);
    }
  }
  std::sort(list.operators.begin(), list.operators.end(),
            [](const auto& a, const auto& b) { return a.address < b.address; });
  return list;
}

void AddOperatorGaps(ProbePlan* plan) {
  constexpr char kFeature[] = "operator names from the Dispatcher";
  if (plan->operators.empty()) {
    plan->gaps.push_back(
        {kFeature,
         "its list of operators could not be read; names come from the symbols and hold the "
         "overload"});
  } else if (!plan->operators_whole) {
    plan->gaps.push_back(
        {kFeature,
         "its list changed whenever it was read: " + std::to_string(plan->operators.size()) +
             " were read, names of others come from the symbols and hold the overload"});
  }
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
