#include <string_view>
#include <vector>

#include "symbols/torch/script_names.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

constexpr uint16_t kStringBytes = 32;
constexpr uint16_t kOldStringBytes = 8;
constexpr uint16_t kVectorBytes = 24;
constexpr uint16_t kPointerBytes = 16;  // a std::shared_ptr, or torch's pointer to a type
// Before `callee_` an InlinedCallStack has its vtable and its counts of references: two words up to
// torch 2.2, then one.
constexpr uint16_t kLeastHead = 16;
constexpr uint16_t kMostHead = 24;
// A SourceRange: 64 up to torch 2.7, 72 from 2.8 on.
constexpr uint16_t kLeastRange = 48;
constexpr uint16_t kMostRange = 96;
constexpr uint16_t kRangeOfNode = 104;   // Node::source_range_, a std::optional
constexpr uint16_t kNameOfType = 32;     // NamedType::name_, a std::optional
constexpr uint16_t kBlockOfGraph = 312;  // Graph::block_

struct Version {
  int major = 0;
  int minor = 0;
};

Version VersionOf(std::string_view torch_version) {
  const std::vector<std::string_view> parts = SplitText(torch_version, ".", /*skip_empty=*/false);
  if (parts.size() < 2) return {};
  return {ParseNumber<int>(parts[0]).value_or(0), ParseNumber<int>(parts[1]).value_or(-1)};
}

}  // namespace

std::optional<ScriptLayout> ScriptLayoutOf(std::string_view torch_version, bool old_strings,
                                           const ScriptObjects& found) {
  const auto [major, minor] = VersionOf(torch_version);
  const bool is_old = major == 1 && minor == 13;
  if (!is_old && !(major == 2 && minor >= 0 && minor <= 15)) return std::nullopt;
  const uint16_t string_bytes = old_strings ? kOldStringBytes : kStringBytes;

  // std::optional<InlinedCallStackPtr> callee_; Function* fn_; std::string fn_name_;
  // SourceRange source_range_; std::optional<ModuleInstanceInfo> module_instance_info_
  const int callee = found.stack_function - 16;
  if (callee < kLeastHead || callee > kMostHead) return std::nullopt;
  // c10::optional begins with its flag, std::optional ends with it.
  const bool flag_is_first = found.stack_callee == callee + 8;
  if (!flag_is_first && found.stack_callee != callee) return std::nullopt;
  const int value = flag_is_first ? 8 : 0;
  const int range = found.stack_module - value - (found.stack_function + 8 + string_bytes);
  if (range < kLeastRange || range > kMostRange || range % 8 != 0) return std::nullopt;

  // size_t n_inputs; TypePtr return_type_; std::string function_name_; shared_ptr<Graph> graph_
  const int code_name = found.code_inputs + 8 + kPointerBytes;

  // optional<SourceRange> source_range_; ScopePtr scope_; optional<InlinedCallStackPtr> callstack_;
  // const Operator* op_; topo_position_t topo_position_; shared_ptr<Wrap<Node>> wrap_;
  // optional<std::string> historic_schema_name_; Node* next_in_graph[2]; vector<AVPtr> values_
  const int callstack = kRangeOfNode + range + 8 + 8;
  const int attributes = callstack + 16 + 8 + 8 + 16 + (string_bytes + 8) + 16;

  const int qualified_name = kVectorBytes + 3 * string_bytes;
  const auto offset = [](int bytes) { return static_cast<uint16_t>(bytes); };
  ScriptLayout layout;
  layout.code_name = offset(code_name);
  layout.code_graph = offset(code_name + string_bytes);
  layout.graph_block = is_old ? kBlockOfGraph - 16 : kBlockOfGraph;
  layout.node_callstack = offset(callstack + value);
  layout.node_is_inlined = offset(flag_is_first ? callstack : callstack + 8);
  layout.node_attributes = offset(attributes);
  layout.stack_callee = found.stack_callee;
  layout.stack_has_callee = offset(flag_is_first ? callee : callee + 8);
  layout.stack_function = found.stack_function;
  layout.stack_module = found.stack_module;
  layout.stack_has_module = offset(
      flag_is_first ? found.stack_module - 8 : found.stack_module + kPointerBytes + string_bytes);
  layout.class_name = offset(kNameOfType + value + kVectorBytes);
  layout.class_has_name = offset(flag_is_first ? kNameOfType : kNameOfType + qualified_name);
  layout.string_bytes = string_bytes;
  return layout;
}

}  // namespace proftrace
