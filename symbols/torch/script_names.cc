#include "symbols/torch/script_names.h"

#include <absl/strings/str_cat.h>

namespace proftrace {
namespace {

// Offsets that are the same in all known versions (torch/csrc/jit/ir/ir.h,
// ATen/core/qualified_name.h).
constexpr uint64_t kKindOfNode = 8;  // 4 bytes
constexpr uint64_t kInputsOfNode = 16;
constexpr uint64_t kOutputsOfNode = 40;
constexpr uint64_t kGraphOfNode = 88;
constexpr uint64_t kInputOfBlock = 24;  // the node whose outputs are the graph's inputs
constexpr uint64_t kNodeOfValue = 8;
constexpr uint64_t kInstanceName = 16;    // behind the pointer to its ClassType
constexpr uint64_t kNameOfAttribute = 8;  // 4 bytes
constexpr uint64_t kTextOfAttribute = 16;

// In a GraphFunction: its name without the class's, which follows the parts and two other strings.
constexpr uint64_t NameOfFunction(uint64_t string_bytes) { return 8 + 24 + 2 * string_bytes; }
// In a FunctionType: the pointer to its Function, behind a std::optional of a qualified name.
constexpr uint64_t FunctionOfType(uint64_t string_bytes) { return 32 + 24 + 3 * string_bytes + 8; }
constexpr uint64_t TypeOfValue(uint64_t string_bytes) { return 56 + string_bytes; }
constexpr uint64_t kBytesOfOldString = 8;

constexpr size_t kLongestName = 512;
constexpr size_t kLongestText = 8192;
constexpr int kMostInlined = 128;
constexpr uint64_t kMostAttributes = 64;

class Reader {
 public:
  Reader(const TargetMemory& memory, const ScriptLayout& layout, const ScriptKinds& kinds)
      : memory_(memory), layout_(layout), kinds_(kinds) {}

  std::optional<ScriptNames> Read(uint64_t code, uint64_t node) {
    const auto name = Text(code + layout_.code_name);
    const auto graph = memory_.ReadWord(code + layout_.code_graph);
    if (!name || !graph || *graph == 0 || memory_.ReadWord(node + kGraphOfNode) != graph) {
      return std::nullopt;
    }
    const auto self = SelfType(*graph);
    if (!self) return std::nullopt;
    ScriptNames names;
    names.text = absl::StrCat("(", *self, ")::", *name, ".");
    if (!AddInlined(node, &names.text)) return std::nullopt;
    auto prefix = PrefixOfNext(*graph, node);
    if (!prefix || names.text.size() > kLongestText) return std::nullopt;
    names.prefix = *std::move(prefix);
    return names;
  }

 private:
  std::optional<std::string> Text(uint64_t address) const {
    return ReadStdString(memory_, address, layout_.string_bytes == kBytesOfOldString, kLongestName);
  }
  std::optional<uint32_t> Number(uint64_t address) const {
    uint32_t number = 0;
    if (!memory_.Read(address, &number, sizeof(number))) return std::nullopt;
    return number;
  }
  std::optional<bool> Flag(uint64_t address) const {
    uint8_t flag = 0;
    if (!memory_.Read(address, &flag, sizeof(flag)) || flag > 1) return std::nullopt;
    return flag == 1;
  }
  bool Is(uint64_t object, uint64_t vtable) const {
    return object != 0 && vtable != 0 && memory_.ReadWord(object) == vtable;
  }

  // Returns the last part of a class's qualified name, as torch does.
  std::optional<std::string> ClassName(uint64_t type) const {
    if (!Is(type, kinds_.class_type)) return std::nullopt;
    if (Flag(type + layout_.class_has_name) != true) return std::nullopt;
    auto name = Text(type + layout_.class_name);
    if (!name) return std::nullopt;
    return name->substr(name->find_last_of('.') + 1);
  }

  std::optional<std::string> FunctionName(uint64_t function) const {
    if (!Is(function, kinds_.graph_function)) return std::nullopt;
    return Text(function + NameOfFunction(layout_.string_bytes));
  }

  // Returns the first value of a vector of values; 0: the vector is empty.
  std::optional<uint64_t> FirstOf(uint64_t vector) const {
    uint64_t words[2] = {};
    if (!memory_.Read(vector, words, sizeof(words)) || words[1] < words[0]) return std::nullopt;
    return words[0] == words[1] ? std::optional<uint64_t>(0) : memory_.ReadWord(words[0]);
  }

  // Returns the value that is the graph's first input; 0: it has none.
  std::optional<uint64_t> FirstInput(uint64_t graph) const {
    const auto block = memory_.ReadWord(graph + layout_.graph_block);
    const auto input = block ? memory_.ReadWord(*block + kInputOfBlock) : std::nullopt;
    if (!input || memory_.ReadWord(*input + kGraphOfNode) != graph) return std::nullopt;
    return FirstOf(*input + kOutputsOfNode);
  }

  // Returns the class of the graph's first input; empty: the input is no object.
  std::optional<std::string> SelfType(uint64_t graph) const {
    const auto self = FirstInput(graph);
    if (!self || *self == 0) return self ? std::optional<std::string>("") : std::nullopt;
    const auto type = memory_.ReadWord(*self + TypeOfValue(layout_.string_bytes));
    if (!type) return std::nullopt;
    return Is(*type, kinds_.class_type) ? ClassName(*type) : std::optional<std::string>("");
  }

  // Returns "fc1(Linear)": torch::jit::utils::get_module_info().
  std::optional<std::string> ModuleText(uint64_t stack) const {
    const auto type = memory_.ReadWord(stack + layout_.stack_module);
    auto instance = Text(stack + layout_.stack_module + kInstanceName);
    if (!type || !instance) return std::nullopt;
    auto name = *type == 0 ? std::optional<std::string>("") : ClassName(*type);
    if (!name) return std::nullopt;
    if (name->empty()) *name = "UNKNOWN_TYPE";
    if (instance->empty()) *instance = "UNKNOWN_INSTANCE";
    return absl::StrCat(*instance, "(", *name, ")");
  }

  // Adds the functions that were inlined around the node, outermost first.
  bool AddInlined(uint64_t node, std::string* text) const {
    auto is_there = Flag(node + layout_.node_is_inlined);
    uint64_t place = node + layout_.node_callstack;
    for (int i = 0; is_there == true; ++i) {
      const uint64_t stack = memory_.ReadWord(place).value_or(0);
      if (i == kMostInlined || !Is(stack, kinds_.inlined_stack)) return false;
      const auto function =
          FunctionName(memory_.ReadWord(stack + layout_.stack_function).value_or(0));
      const auto has_module = Flag(stack + layout_.stack_has_module);
      if (!function || !has_module) return false;
      const auto module = *has_module ? ModuleText(stack) : std::optional<std::string>("");
      if (!module || text->size() > kLongestText) return false;
      absl::StrAppend(text, *module, "::", *function, ".");
      is_there = Flag(stack + layout_.stack_has_callee);
      place = stack + layout_.stack_callee;
    }
    return is_there.has_value();
  }

  // Returns the text of the node's attribute "name".
  std::optional<std::string> NameAttribute(uint64_t node) const {
    uint64_t words[2] = {};
    if (!memory_.Read(node + layout_.node_attributes, words, sizeof(words)) ||
        words[1] < words[0] || words[1] - words[0] > kMostAttributes * 8) {
      return std::nullopt;
    }
    for (uint64_t at = words[0]; at < words[1]; at += 8) {
      const auto attribute = memory_.ReadWord(at);
      if (!attribute) return std::nullopt;
      if (Number(*attribute + kNameOfAttribute) == kinds_.name) {
        return Text(*attribute + kTextOfAttribute);
      }
    }
    return std::nullopt;
  }

  // Returns the prefix that a call gives the frame that it makes.
  std::optional<std::string> PrefixOfNext(uint64_t graph, uint64_t node) const {
    const auto kind = Number(node + kKindOfNode);
    if (!kind) return std::nullopt;
    const bool is_method = *kind == kinds_.call_method;
    if (!is_method && *kind != kinds_.call_function) return "";
    const uint64_t object = FirstOf(node + kInputsOfNode).value_or(0);
    const uint64_t maker = object == 0 ? 0 : memory_.ReadWord(object + kNodeOfValue).value_or(0);
    if (maker == 0 || memory_.ReadWord(maker + kGraphOfNode) != graph) return std::nullopt;
    if (!is_method) return FunctionPrefix(maker);
    if (Number(maker + kKindOfNode) == kinds_.get_attribute) return NameAttribute(maker);
    return FirstInput(graph) == object ? "SELF" : "INSTANCE_NAME_UNKNOWN";
  }

  // Returns the prefix for the call of a function. `maker`: the node of the constant that is the
  // function.
  std::optional<std::string> FunctionPrefix(uint64_t maker) const {
    const uint64_t value = FirstOf(maker + kOutputsOfNode).value_or(0);
    const uint64_t type =
        value == 0 ? 0 : memory_.ReadWord(value + TypeOfValue(layout_.string_bytes)).value_or(0);
    if (!Is(type, kinds_.function_type)) return std::nullopt;
    const auto name =
        FunctionName(memory_.ReadWord(type + FunctionOfType(layout_.string_bytes)).value_or(0));
    if (!name) return std::nullopt;
    return absl::StrCat("CALL_FUNCTION::", *name);
  }

  const TargetMemory& memory_;
  const ScriptLayout& layout_;
  const ScriptKinds& kinds_;
};

}  // namespace

std::optional<ScriptNames> ReadScriptNames(const TargetMemory& memory, const ScriptLayout& layout,
                                           const ScriptKinds& kinds, uint64_t code, uint64_t node) {
  return Reader(memory, layout, kinds).Read(code, node);
}

}  // namespace proftrace
