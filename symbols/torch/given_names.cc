#include "symbols/torch/given_names.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "symbols/x86/forwarded_calls.h"
#include "symbols/x86/graph_analysis.h"
#include "symbols/x86/value_sums.h"
#include "symbols/x86/value_walk.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

constexpr std::string_view kBefore = "_ZN2at14RecordFunction6beforeE";
constexpr std::string_view kWithScope = "_ZN2at6detail26record_function_with_scopeI";
constexpr std::string_view kWithHandle =
    "_ZN2at6detail43record_function_with_scope_and_debug_handleI";
constexpr size_t kLongestLiteral = 256;

// Returns the text that a call gives a row as its name; nullopt: the call names none.
std::optional<Value> TextArgument(std::string_view callee, const ValueState& state) {
  std::string_view rest = callee;
  const bool with_scope = ConsumeText(&rest, kWithScope) || ConsumeText(&rest, kWithHandle);
  if (!with_scope && !ConsumeText(&rest, kBefore)) return std::nullopt;
  // A std::variant<std::string_view, …> is passed by value on the stack, with the length of the
  // text first (libstdc++).
  const bool variant = with_scope
                           ? Contains(rest, "7variantI")
                           : rest.starts_with("St7variantI") || rest.starts_with("N3c107variantI");
  if (variant) return state.Load(state.reg(kRsp), 8);
  if (with_scope ? Contains(rest, "PKc") : rest.starts_with("PKc")) return state.reg(kRsi);
  const bool string = with_scope ? Contains(rest, "Ss") || Contains(rest, "basic_string")
                                 : rest.starts_with("Ss") || rest.starts_with("NSt7__cxx1112basic");
  // A std::string by value is passed by address; its first word points to the characters.
  if (string) return state.Load(state.reg(kRsi), 0);
  return std::nullopt;
}

std::optional<std::string> TextAt(const CodeImage& image, uint64_t address) {
  char text[kLongestLiteral] = {};
  const size_t got = image.ReadCode(address, text, sizeof(text));
  const size_t length = strnlen(text, got);
  if (length == 0 || length == got) return std::nullopt;
  return std::string(text, length);
}

// Returns the place of the text whose address is `value`.
std::optional<abi::pt_place> NamePlace(const Value& value, const ValueSums& sums) {
  if (value.is_symbol) {
    Value number = value;
    number.is_symbol = false;
    return PlaceOf(number, abi::PT_PLACE_SYMBOL);
  }
  const auto element = sums.ElementOf(value);
  if (!element) return PlaceOf(value, abi::PT_PLACE_C_STRING);
  auto place = PlaceOf(element->whole, abi::PT_PLACE_C_STRING);
  if (!place) return std::nullopt;
  place->index = static_cast<uint8_t>(element->index + 1);
  place->index_shift = static_cast<uint8_t>(element->shift);
  place->index_step = static_cast<uint8_t>(element->step);
  return place;
}

// Whether `value` is loaded through the pointer `through`.
bool LeadsThrough(const Value& value, const Value& through) {
  const size_t steps = through.offsets.size();
  return value.base == through.base && steps >= 2 && value.offsets.size() > steps &&
         through.offsets.back() == 0 &&
         std::equal(through.offsets.begin(), through.offsets.end() - 1, value.offsets.begin());
}

// Whether the code gives the first of two names where a tested pointer is not null, and the other
// one where it is null. False: the code chooses by something else.
bool IsChosenByPointer(const Value& first, const Value& other, const std::vector<Value>& tested) {
  return std::any_of(tested.begin(), tested.end(), [&](const Value& pointer) {
    return LeadsThrough(first, pointer) && !LeadsThrough(other, pointer);
  });
}

// Makes a name of `texts`, the addresses of all texts that the code may give. nullopt: the name is
// not clear.
std::optional<RowName> NameOf(const CodeImage& image, std::vector<Value> texts,
                              const std::vector<Value>& tested, const ValueSums& sums) {
  RowName name;
  if (texts.size() == 2 && IsChosenByPointer(texts[1], texts[0], tested)) {
    std::swap(texts[0], texts[1]);
  } else if (texts.empty() || texts.size() > 2 ||
             (texts.size() == 2 && !IsChosenByPointer(texts[0], texts[1], tested))) {
    return std::nullopt;
  }
  if (texts[0].is_address()) {
    name.literal = TextAt(image, static_cast<uint64_t>(texts[0].offsets[0])).value_or("");
    if (name.literal.empty()) return std::nullopt;
    return name;
  }
  name.place = NamePlace(texts[0], sums);
  if (texts.size() == 2) {
    name.otherwise = NamePlace(texts[1], sums);
    const bool is_text = name.otherwise && name.otherwise->form == abi::PT_PLACE_C_STRING &&
                         name.place && name.place->form == abi::PT_PLACE_C_STRING;
    if (!is_text) return std::nullopt;
  }
  return name;
}

}  // namespace

std::optional<RowName> FindGivenName(const CodeImage& image, const FlowGraph& graph, uint32_t from,
                                     const std::vector<uint64_t>& stops,
                                     const VirtualReturn& virtual_return) {
  std::vector<Value> texts;
  std::vector<Value> tested;
  ValueSums sums;
  ForwardedCalls naming(image, graph, [](std::string_view callee) {
    return callee.starts_with(kBefore) || callee.starts_with(kWithScope) ||
           callee.starts_with(kWithHandle);
  });
  const auto note = [](const Value& value, std::vector<Value>* values) {
    if (std::find(values->begin(), values->end(), value) == values->end()) values->push_back(value);
  };
  ValueWalk walk(graph);
  walk.set_follows_names(&sums);
  walk.set_virtual_return(virtual_return);
  naming.TellNames(&walk);
  walk.Run(from, [&](uint32_t node, const ValueState& state) {
    const FlowNode& call = graph.node(node);
    if (!naming.LeadsToOne(node)) return false;
    if (!call.is_call) {
      const Value pointer = walk.TestedAt(node, state);
      if (pointer.known() && pointer.is_whole()) note(pointer, &tested);
      return true;
    }
    if (node == from) return true;
    if (std::binary_search(stops.begin(), stops.end(), call.instruction.target)) return false;
    bool is_over = false;
    naming.Visit(walk, node, state, [&](std::string_view callee, const ValueState& at) {
      const auto text = TextArgument(callee, at);
      is_over |= text.has_value();
      // The code gives the same name with and without inputs. A text that cannot be followed on one
      // of the two paths is ignored.
      if (text && (text->is_address() || NamePlace(*text, sums))) note(*text, &texts);
    });
    return !is_over;
  });
  return NameOf(image, std::move(texts), tested, sums);
}

}  // namespace proftrace
