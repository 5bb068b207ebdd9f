#include "symbols/torch/call_arguments.h"

#include <algorithm>
#include <iterator>

#include "userspace/base/demangle.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

constexpr unsigned kGeneralRegisters = 6;
constexpr unsigned kVectorRegisters = 8;

// How an argument of a C++ type is passed.
enum class Passing {
  kWord,      // a general register: a number, or an address
  kTwoWords,  // two general registers, or two words on the stack
  kDouble,    // a vector register
  // A vector and a general register, or two words on the stack: std::optional<double>
  kDoubleAndWord,
  kMemory,  // three words on the stack: an object of 24 bytes
};

struct TypeRule {
  std::string_view type;
  abi::pt_argument_kind kind;
  Passing passing;
};

constexpr TypeRule kPlainTypes[] = {
    {"at::Tensor const&", abi::PT_ARGUMENT_TENSOR, Passing::kWord},
    {"at::Tensor&", abi::PT_ARGUMENT_TENSOR, Passing::kWord},
    {"c10::IListRef<at::Tensor> const&", abi::PT_ARGUMENT_TENSOR_ITEMS, Passing::kWord},
    {"c10::List<std::optional<at::Tensor> > const&", abi::PT_ARGUMENT_LIST, Passing::kWord},
    {"c10::List<c10::optional<at::Tensor> > const&", abi::PT_ARGUMENT_LIST, Passing::kWord},
    {"c10::ArrayRef<at::Tensor>", abi::PT_ARGUMENT_TENSORS, Passing::kTwoWords},
    {"c10::ArrayRef<long>", abi::PT_ARGUMENT_INTS, Passing::kTwoWords},
    {"c10::ArrayRef<c10::SymInt>", abi::PT_ARGUMENT_INTS, Passing::kTwoWords},
    {"c10::ArrayRef<double>", abi::PT_ARGUMENT_DOUBLES, Passing::kTwoWords},
    {"c10::ArrayRef<c10::Scalar>", abi::PT_ARGUMENT_SCALARS, Passing::kTwoWords},
    {"c10::ArrayRef<at::Dimname>", abi::PT_ARGUMENT_NAMES, Passing::kTwoWords},
    {"c10::Scalar const&", abi::PT_ARGUMENT_SCALAR, Passing::kWord},
    // The copy constructor is not trivial, so that the caller passes the address of a copy.
    {"c10::SymInt", abi::PT_ARGUMENT_SYMBOLIC_INT, Passing::kWord},
    {"long", abi::PT_ARGUMENT_INT, Passing::kWord},
    {"bool", abi::PT_ARGUMENT_BOOL, Passing::kWord},
    {"double", abi::PT_ARGUMENT_DOUBLE, Passing::kDouble},
    {"signed char", abi::PT_ARGUMENT_BYTE, Passing::kWord},
    {"c10::ScalarType", abi::PT_ARGUMENT_BYTE, Passing::kWord},
    {"c10::Layout", abi::PT_ARGUMENT_BYTE, Passing::kWord},
    {"c10::MemoryFormat", abi::PT_ARGUMENT_BYTE, Passing::kWord},
    {"c10::Device", abi::PT_ARGUMENT_OTHER, Passing::kWord},
    {"c10::Storage", abi::PT_ARGUMENT_OTHER, Passing::kWord},  // the address of a copy
    {"c10::Stream", abi::PT_ARGUMENT_OTHER, Passing::kTwoWords},
    {"at::Dimname", abi::PT_ARGUMENT_OTHER, Passing::kWord},
    {"c10::basic_string_view<char>", abi::PT_ARGUMENT_OTHER, Passing::kTwoWords},
    {"std::basic_string_view<char, std::char_traits<char> >", abi::PT_ARGUMENT_OTHER,
     Passing::kTwoWords},
};

const TypeRule* FindRule(std::string_view type) {
  const auto* found = std::find_if(std::begin(kPlainTypes), std::end(kPlainTypes),
                                   [type](const TypeRule& rule) { return rule.type == type; });
  return found == std::end(kPlainTypes) ? nullptr : found;
}

// Gives each argument its registers or its place on the stack, in order.
class Placer {
 public:
  // `before`: how many general registers hold words that come before the arguments.
  Placer(OptionalForm form, unsigned before) : form_(form), general_(before) {}

  std::optional<abi::pt_argument> Place(std::string_view type);
  // Places an object that is passed by its address.
  abi::pt_argument PlaceObject(abi::pt_argument_kind kind);

 private:
  uint8_t Word() {
    return static_cast<uint8_t>(general_ < kGeneralRegisters ? general_++ : StackWord());
  }
  unsigned StackWord() { return abi::PT_ARGUMENT_STACK + stack_++; }
  // Places two words that are passed together: both in registers or both on the stack.
  void TwoWords(uint8_t* first, uint8_t* second) {
    const bool fits = general_ + 2 <= kGeneralRegisters;
    *first = static_cast<uint8_t>(fits ? general_++ : StackWord());
    *second = static_cast<uint8_t>(fits ? general_++ : StackWord());
  }
  uint8_t VectorRegister() {
    return static_cast<uint8_t>(
        vector_ < kVectorRegisters ? abi::PT_ARGUMENT_VECTOR_REGISTER + vector_++ : StackWord());
  }
  std::optional<abi::pt_argument> PlaceOptional(std::string_view inner);
  abi::pt_argument PlacePlain(const TypeRule& rule);
  abi::pt_argument PlaceOptionalList(abi::pt_argument_kind kind);
  std::optional<abi::pt_argument> PlaceReference(std::string_view inner);

  OptionalForm form_;
  unsigned general_;
  unsigned vector_ = 0;
  unsigned stack_ = 0;
};

abi::pt_argument NewArgument(abi::pt_argument_kind kind) {
  abi::pt_argument argument{};
  argument.kind = static_cast<uint8_t>(kind);
  argument.second = abi::PT_ARGUMENT_NOWHERE;
  argument.flag = abi::PT_ARGUMENT_NOWHERE;
  return argument;
}

abi::pt_argument Placer::PlaceObject(abi::pt_argument_kind kind) {
  abi::pt_argument argument = NewArgument(kind);
  argument.place = Word();
  return argument;
}

abi::pt_argument Placer::PlacePlain(const TypeRule& rule) {
  abi::pt_argument argument = NewArgument(rule.kind);
  if (rule.passing == Passing::kTwoWords) {
    TwoWords(&argument.place, &argument.second);
  } else {
    argument.place = rule.passing == Passing::kDouble ? VectorRegister() : Word();
  }
  return argument;
}

abi::pt_argument Placer::PlaceOptionalList(abi::pt_argument_kind kind) {
  abi::pt_argument argument = NewArgument(kind);
  if (form_ == OptionalForm::kC10) {
    TwoWords(&argument.place, &argument.second);
    argument.flag = abi::PT_ARGUMENT_NULL_IS_NONE;
    return argument;
  }
  argument.place = static_cast<uint8_t>(StackWord());
  argument.second = static_cast<uint8_t>(StackWord());
  argument.flag = static_cast<uint8_t>(StackWord());
  return argument;
}

// Places an optional that is passed by its address.
std::optional<abi::pt_argument> Placer::PlaceReference(std::string_view inner) {
  const bool is_scalar = inner == "c10::Scalar";  // 32 bytes, aligned to 16
  abi::pt_argument argument = NewArgument(is_scalar               ? abi::PT_ARGUMENT_SCALAR
                                          : inner == "at::Tensor" ? abi::PT_ARGUMENT_TENSOR
                                                                  : abi::PT_ARGUMENT_SYMBOLIC_INT);
  argument.place = Word();
  argument.flag = abi::PT_ARGUMENT_IN_MEMORY;
  if (form_ == OptionalForm::kC10) {
    argument.value_offset = is_scalar ? 16 : 8;
  } else {
    argument.flag_offset = is_scalar ? 32 : 8;
  }
  return argument;
}

std::optional<abi::pt_argument> Placer::PlaceOptional(std::string_view inner) {
  if (inner == "at::Generator") {  // the address of a copy
    abi::pt_argument argument = NewArgument(abi::PT_ARGUMENT_OTHER);
    argument.place = Word();
    return argument;
  }
  if (inner == "c10::SymInt") return PlaceReference(inner);
  const TypeRule* rule = FindRule(inner);
  if (rule == nullptr) return std::nullopt;
  const bool is_c10 = form_ == OptionalForm::kC10;
  abi::pt_argument argument = NewArgument(rule->kind);
  if (Contains(inner, "string_view")) {
    if (is_c10) {
      argument.place = Word();  // the address of a copy
    } else {
      stack_ += 3;
    }
    return argument;
  }
  if (inner.starts_with("c10::ArrayRef<")) return PlaceOptionalList(rule->kind);
  if (inner == "double" && !is_c10) {
    if (vector_ < kVectorRegisters && general_ < kGeneralRegisters) {
      argument.place = VectorRegister();
      argument.flag = Word();
    } else {
      argument.place = static_cast<uint8_t>(StackWord());
      argument.flag = static_cast<uint8_t>(StackWord());
    }
    return argument;
  }
  if (inner == "double" || inner == "long") {
    // A c10::optional<double> has a union with a char, so that it is not passed in a vector
    // register.
    TwoWords(is_c10 ? &argument.flag : &argument.place, is_c10 ? &argument.place : &argument.flag);
    return argument;
  }
  if (rule->passing != Passing::kWord || inner.ends_with("&")) return std::nullopt;
  argument.place = argument.flag = Word();  // both in one word
  (is_c10 ? argument.value_offset : argument.flag_offset) = 1;
  if (rule->kind == abi::PT_ARGUMENT_OTHER) argument.flag = abi::PT_ARGUMENT_NOWHERE;
  return argument;
}

std::optional<abi::pt_argument> Placer::Place(std::string_view type) {
  if (const TypeRule* rule = FindRule(type); rule != nullptr) return PlacePlain(*rule);
  if (ConsumeText(&type, "c10::OptionalArrayRef<")) {
    if (type != "long>" && type != "c10::SymInt>") return std::nullopt;
    return PlaceOptionalList(abi::PT_ARGUMENT_INTS);
  }
  if (ConsumeText(&type, "std::array<bool, ")) {
    if (type.size() != 4 || !type.ends_with("ul>") || type[0] < '1' || type[0] > '8') return {};
    abi::pt_argument argument = NewArgument(abi::PT_ARGUMENT_BOOL_ARRAY);
    argument.place = Word();
    argument.second = static_cast<uint8_t>(type[0] - '0');
    return argument;
  }
  const bool is_c10 = ConsumeText(&type, "c10::optional<");
  if (!is_c10 && !ConsumeText(&type, "std::optional<")) return std::nullopt;
  if (is_c10 != (form_ == OptionalForm::kC10)) return std::nullopt;
  if (type == "at::Tensor> const&" || type == "c10::Scalar> const&") {
    return PlaceReference(type.substr(0, type.find('>')));
  }
  if (!type.ends_with(">")) return std::nullopt;
  type.remove_suffix(1);
  return PlaceOptional(StripBlanks(type));
}

// Whether the caller passes the address of the result as a first argument; nullopt: the type of the
// result is not known.
std::optional<bool> IsResultByAddress(const OperatorSchema& schema) {
  if (schema.returns.empty()) return false;
  if (schema.returns.size() > 1) return true;  // a std::tuple, also of references
  const SchemaArgument& result = schema.returns[0];
  if (result.is_list) return true;
  if (result.type == "Tensor") return !(result.alias && result.alias->is_write);  // a Tensor&
  constexpr std::string_view kByAddress[] = {"Scalar", "number", "SymInt", "str", "Storage"};
  constexpr std::string_view kInRegister[] = {"int",    "bool",   "float",  "ScalarType",
                                              "Layout", "Device", "Stream", "QScheme"};
  const auto is = [&result](std::string_view type) { return result.type == type; };
  if (std::any_of(std::begin(kByAddress), std::end(kByAddress), is)) return true;
  if (std::any_of(std::begin(kInRegister), std::end(kInRegister), is)) return false;
  return std::nullopt;
}

}  // namespace

namespace {

// Returns the kind of an argument that is an object; nullopt: its type is not known here. torch
// shows nothing of most such objects, or only that they are empty.
std::optional<abi::pt_argument_kind> KindOfObject(std::string_view type) {
  if (type == "at::Tensor") return abi::PT_ARGUMENT_TENSOR;  // the address of a copy
  if (!type.ends_with("> const&") && !type.ends_with(">")) return std::nullopt;
  if (type == "c10::ArrayRef<at::Tensor> const&") return abi::PT_ARGUMENT_TENSOR_ARRAY;
  if (type.starts_with("c10::intrusive_ptr<")) return abi::PT_ARGUMENT_OTHER;
  if (type.starts_with("std::vector<long, ")) return abi::PT_ARGUMENT_INT_VECTOR;
  if (type.starts_with("std::vector<std::vector<")) return abi::PT_ARGUMENT_OBJECT_VECTOR;
  const bool is_text =
      type.starts_with("std::basic_string<") || type.starts_with("std::__cxx11::basic_string<");
  return is_text ? std::optional(abi::PT_ARGUMENT_OTHER) : std::nullopt;
}

// Whether the place lies outside of the PT_ROW_WORDS words of a row's arguments.
bool IsBeyondRow(uint8_t place) {
  return place >= PT_ROW_WORDS && place < abi::PT_ARGUMENT_VECTOR_REGISTER;
}

}  // namespace

std::optional<std::vector<abi::pt_argument>> PlaceKernelArguments(std::string_view demangled,
                                                                  OptionalForm form,
                                                                  unsigned before) {
  const size_t open = demangled.find(" (");
  if (open == std::string::npos) return std::nullopt;
  const std::string_view result = demangled.substr(0, open);
  constexpr std::string_view kInRegister[] = {"void", "bool", "long", "double"};
  const bool by_address =
      !result.ends_with("&") &&
      std::find(std::begin(kInRegister), std::end(kInRegister), result) == std::end(kInRegister);
  if (by_address) ++before;
  Placer placer(form, before);
  std::vector<abi::pt_argument> arguments;
  for (const std::string& parameter : ParameterTypes(demangled)) {
    auto argument = placer.Place(parameter);
    if (!argument) {
      const auto kind = KindOfObject(parameter);
      if (!kind) return std::nullopt;
      argument = placer.PlaceObject(*kind);
    }
    // A row's vector registers stand in its first words, in place of the words before the
    // arguments.
    if (argument->place >= abi::PT_ARGUMENT_VECTOR_REGISTER &&
        argument->place < abi::PT_ARGUMENT_IN_MEMORY) {
      argument->place -= abi::PT_ARGUMENT_VECTOR_REGISTER;
      if (argument->place >= before) return std::nullopt;
    }
    if (IsBeyondRow(argument->place) || IsBeyondRow(argument->second) ||
        IsBeyondRow(argument->flag)) {
      return std::nullopt;
    }
    arguments.push_back(*argument);
  }
  if (arguments.size() > PT_MOST_ARGUMENTS) return std::nullopt;
  return arguments;
}

std::vector<std::string> ParameterTypes(std::string_view demangled) {
  std::vector<std::string> types;
  const size_t open = demangled.find('(');
  if (open == std::string_view::npos || !demangled.ends_with(")")) return types;
  const std::string_view list = demangled.substr(open + 1, demangled.size() - open - 2);
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= list.size(); ++i) {
    const char c = i == list.size() ? ',' : list[i];
    if (c == '<' || c == '(') ++depth;
    if (c == '>' || c == ')') --depth;
    if (c != ',' || depth != 0) continue;
    const std::string_view type = StripBlanks(list.substr(begin, i - begin));
    if (!type.empty()) types.emplace_back(type);
    begin = i + 1;
  }
  return types;
}

std::optional<std::vector<abi::pt_argument>> PlaceArguments(std::string_view symbol,
                                                            const OperatorSchema& schema,
                                                            OptionalForm form) {
  const std::optional<std::string> demangled = Demangle(std::string(symbol));
  if (!demangled) return std::nullopt;
  const std::vector<std::string> types = ParameterTypes(*demangled);
  const std::optional<bool> by_address = IsResultByAddress(schema);
  if (!by_address || types.size() != schema.arguments.size() || types.size() > PT_MOST_ARGUMENTS) {
    return std::nullopt;
  }
  Placer placer(form, *by_address ? 1 : 0);
  std::vector<abi::pt_argument> arguments;
  for (size_t i = 0; i < types.size(); ++i) {
    const bool has_tensor = Contains(types[i], "at::Tensor");
    if (has_tensor != schema.arguments[i].element_type.starts_with("Tensor")) return std::nullopt;
    const std::optional<abi::pt_argument> argument = placer.Place(types[i]);
    if (!argument) return std::nullopt;
    arguments.push_back(*argument);
  }
  return arguments;
}

}  // namespace proftrace
