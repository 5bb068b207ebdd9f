#include "symbols/torch/type_reader.h"

#include <array>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace proftrace {
namespace {

constexpr int kDeepestType = 16;
constexpr size_t kMostTypes = 100'000;
// The most elements of a tuple; torch's own tuples have up to 5
constexpr size_t kMostElements = 64;
constexpr size_t kMaxNameBytes = 512;
constexpr uint64_t kTypePointerBytes = 16;  // {Type*, control block}
constexpr uint64_t kFieldsOffset = 32;      // behind SharedType
// A UnionType has bool, vector, bool; then comes OptionalType's contained_.
constexpr uint64_t kOptionalElementOffset = kFieldsOffset + 40;

// The texts of Type::str() for classes that contain no other type (jit_type.h).
constexpr std::pair<std::string_view, std::string_view> kPlainTypes[] = {
    {"AnyType", "Any"},
    {"AnyEnumType", "AnyEnumType"},
    {"TensorType", "Tensor"},
    {"StorageType", "Storage"},
    {"NumberType", "Scalar"},
    {"FloatType", "float"},
    {"ComplexType", "complex"},
    {"IntType", "int"},
    {"NoneType", "NoneType"},
    {"StringType", "str"},
    {"GeneratorType", "Generator"},
    {"QuantizerType", "Quantizer"},
    {"BoolType", "bool"},
    {"DeviceObjType", "Device"},
    {"StreamObjType", "Stream"},
    {"PyObjectType", "PyObject"},
    {"CapsuleType", "Capsule"},
    {"QSchemeType", "QScheme"},
    {"ScalarTypeType", "ScalarType"},
    {"LayoutType", "Layout"},
    {"MemoryFormatType", "MemoryFormat"},
    {"AnyListType", "list"},
    {"AnyTupleType", "tuple"},
    {"AnyClassType", "AnyClassType"},
    {"SymIntType", "SymInt"},
    {"SymFloatType", "SymFloat"},
    {"SymBoolType", "SymBool"},
    {"FunctionType", "Function"},
};

// Classes that hold one type right behind SharedType, and the text in front of that type's text.
constexpr std::pair<std::string_view, std::string_view> kWrappers[] = {
    {"FutureType", "Future("}, {"AwaitType", "Await("}, {"RRefType", "RRef("}};

// Returns "IntType" for "N3c107IntTypeE"; empty for a name that is not that of a class directly in
// c10.
std::string ParseClassName(std::string_view mangled) {
  if (mangled.starts_with('*')) mangled.remove_prefix(1);
  constexpr std::string_view kPrefix = "N3c10";
  if (!mangled.starts_with(kPrefix) || !mangled.ends_with('E')) return "";
  mangled.remove_prefix(kPrefix.size());
  mangled.remove_suffix(1);
  size_t length = 0;
  while (!mangled.empty() && mangled.front() >= '0' && mangled.front() <= '9') {
    length = length * 10 + static_cast<size_t>(mangled.front() - '0');
    if (length > kMaxNameBytes) return "";
    mangled.remove_prefix(1);
  }
  return length == mangled.size() ? std::string(mangled) : "";
}

}  // namespace

std::optional<std::string> TypeReader::ClassName(uint64_t address) {
  const auto vtable = memory_.ReadWord(address);
  if (!vtable || *vtable < 4096) return std::nullopt;
  const auto [it, is_new] = class_names_.try_emplace(*vtable);
  if (is_new) {
    const auto typeinfo = memory_.ReadWord(*vtable - 8);
    const auto name = typeinfo ? memory_.ReadWord(*typeinfo + 8) : std::nullopt;
    char text[64] = "";
    if (name && memory_.Read(*name, text, sizeof(text) - 1)) it->second = ParseClassName(text);
  }
  if (it->second.empty()) return std::nullopt;
  return it->second;
}

std::optional<std::string> TypeReader::JoinElements(uint64_t vector, int depth) {
  uint64_t words[2];
  if (!memory_.Read(vector, words, sizeof(words)) || words[1] < words[0]) return std::nullopt;
  const uint64_t bytes = words[1] - words[0];
  if (bytes % kTypePointerBytes != 0 || bytes / kTypePointerBytes > kMostElements) {
    return std::nullopt;
  }
  std::string text;
  for (uint64_t at = words[0]; at < words[1]; at += kTypePointerBytes) {
    const auto pointer = memory_.ReadWord(at);
    const TypeFacts* element = pointer ? Read(*pointer, depth + 1) : nullptr;
    if (element == nullptr) return std::nullopt;
    if (!text.empty()) text += ", ";
    text += element->text;
  }
  return text;
}

// A NamedType has an optional<QualifiedName>; a QualifiedName has a vector of atoms, then the whole
// name.
std::optional<std::string> TypeReader::QualifiedName(uint64_t address) const {
  const uint64_t value = address + kFieldsOffset + (flag_first_ ? 8 : 0);
  const uint64_t string_bytes = old_abi_ ? 8 : 32;
  const uint64_t flag = flag_first_ ? address + kFieldsOffset : value + 24 + 3 * string_bytes;
  uint8_t has_name = 0;
  if (!memory_.Read(flag, &has_name, 1) || has_name != 1) return std::nullopt;
  auto name = ReadStdString(memory_, value + 24, old_abi_, kMaxNameBytes);
  if (!name || name->empty()) return std::nullopt;
  return name;
}

bool TypeReader::Describe(uint64_t address, int depth, TypeFacts* facts) {
  for (const auto& [class_name, text] : kPlainTypes) {
    if (facts->class_name != class_name) continue;
    facts->text = text;
    return true;
  }
  const auto contained = [&](uint64_t offset) -> const TypeFacts* {
    const auto pointer = memory_.ReadWord(address + offset);
    if (!pointer) return nullptr;
    facts->element = *pointer;
    return Read(*pointer, depth + 1);
  };
  if (facts->class_name == "ListType" || facts->class_name == "OptionalType") {
    const bool is_list = facts->class_name == "ListType";
    const TypeFacts* element = contained(is_list ? kFieldsOffset : kOptionalElementOffset);
    if (element == nullptr) return false;
    facts->shape = is_list ? TypeShape::kList : TypeShape::kOptional;
    facts->text = element->text + (is_list ? "[]" : "?");
    return true;
  }
  for (const auto& [class_name, begin] : kWrappers) {
    if (facts->class_name != class_name) continue;
    const TypeFacts* element = contained(kFieldsOffset);
    if (element == nullptr) return false;
    facts->text = std::string(begin) + element->text + ")";
    return true;
  }
  std::optional<std::string> text;
  if (facts->class_name == "DictType") {
    text = JoinElements(address + kFieldsOffset, depth);
    if (text) text = "Dict(" + *text + ")";
  } else if (facts->class_name == "TupleType") {
    const uint64_t named_bytes = 24 + 3 * (old_abi_ ? 8 : 32) + 8;  // optional<QualifiedName>
    const uint64_t elements = address + kFieldsOffset + named_bytes;
    const auto schema = memory_.ReadWord(elements + 24 + 8);
    if (!schema) return false;
    // Only a NamedTuple has a schema of its fields. Its text is its name.
    text = *schema != 0 ? QualifiedName(address) : JoinElements(elements, depth);
    if (text && *schema == 0) text = "(" + *text + ")";
  } else if (facts->class_name == "ClassType") {
    text = QualifiedName(address);
  } else if (facts->class_name == "VarType") {
    text = ReadStdString(memory_, address + kFieldsOffset, old_abi_, kMaxNameBytes);
  }
  if (!text) return false;
  facts->text = *std::move(text);
  return true;
}

const TypeFacts* TypeReader::Read(uint64_t address, int depth) {
  if (const auto it = types_.find(address); it != types_.end()) return it->second.get();
  if (depth > kDeepestType || ++visits_ > kMostTypes) return nullptr;
  TypeFacts facts;
  auto class_name = ClassName(address);
  if (!class_name) return nullptr;
  facts.class_name = *std::move(class_name);
  if (!Describe(address, depth, &facts) || facts.text.size() > kMaxNameBytes * 8) return nullptr;
  return types_.emplace(address, std::make_unique<const TypeFacts>(std::move(facts)))
      .first->second.get();
}

}  // namespace proftrace
