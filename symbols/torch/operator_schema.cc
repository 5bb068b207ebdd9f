#include "symbols/torch/operator_schema.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <utility>

#include "symbols/torch/type_reader.h"
#include "userspace/model/torch_rules.h"

namespace proftrace {
namespace {

// torch's longest schemas have 40 arguments.
constexpr uint64_t kMostArguments = 256;
constexpr uint64_t kMostListValues = 64;  // the most values of a list that is a default value
constexpr uint64_t kMostSets = 16;        // the most alias sets of an argument
constexpr uint64_t kMostContained = 4;
constexpr size_t kMaxTextBytes = 4096;
// The limit for all schemas together; torch's own are 600 KB.
constexpr size_t kMostBytes = size_t{32} << 20;

// A c10::IValue is a payload and then a tag. These numbers of tags are the same since 1.13. Bool
// and the tags behind it got other numbers when SymBool (2.1) and UInt (2.11) were put before it.
constexpr uint64_t kValueBytes = 16;
constexpr uint32_t kTagNone = 0;
constexpr uint32_t kTagDouble = 3;
constexpr uint32_t kTagInt = 5;
constexpr uint32_t kLeastBoolTag = 8;
constexpr uint32_t kMostBoolTag = 10;
constexpr uint32_t kStringAfterBool = 2;
constexpr uint32_t kListAfterBool = 4;

struct Value {
  uint64_t payload = 0;
  uint32_t tag = 0;
};

// A schema whose default values have not been made into texts yet.
struct Draft {
  uint64_t address = 0;
  OperatorSchema schema;
  struct Default {
    bool is_return;
    size_t index;  // of the argument
    const TypeFacts* type;
    const TypeFacts* inner;  // of an optional, else as `type`
    Value value;
  };
  std::vector<Default> defaults;
};

// Quotes a text as torch's printQuotedString does.
std::string QuoteString(std::string_view text) {
  constexpr std::pair<char, char> kEscapes[] = {
      {'\\', '\\'}, {'\'', '\''}, {'"', '"'},  {'\a', 'a'}, {'\b', 'b'},
      {'\f', 'f'},  {'\n', 'n'},  {'\r', 'r'}, {'\t', 't'}, {'\v', 'v'}};
  std::string quoted = "\"";
  for (const char c : text) {
    const auto* escape = std::find_if(std::begin(kEscapes), std::end(kEscapes),
                                      [c](const auto& pair) { return pair.first == c; });
    if (escape != std::end(kEscapes)) {
      quoted += '\\';
      quoted += escape->second;
    } else if (c >= 0x20 && c < 0x7f) {
      quoted += c;
    } else {
      char octal[8];
      std::snprintf(octal, sizeof(octal), "\\%03o", static_cast<unsigned>(c) & 0xffu);
      quoted += octal;
    }
  }
  return quoted + "\"";
}

bool IsName(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.';
  });
}

class SchemaReader {
 public:
  SchemaReader(const TargetMemory& memory, bool old_abi, bool flag_first,
               const InternedStrings* symbols)
      : memory_(memory),
        symbols_(symbols),
        old_abi_(old_abi),
        flag_first_(flag_first),
        string_bytes_(old_abi ? 8 : 32),
        types_(memory, old_abi, flag_first) {}

  // The place of an operator's FunctionSchema, if it has one. FindSchema() returns nullopt where
  // the memory is not as expected.
  struct Place {
    bool is_there;
    uint64_t address;
  };
  std::optional<Place> FindSchema(uint64_t operator_def) const;
  bool HasName(uint64_t schema, const OperatorInfo& info) const;
  std::optional<Draft> ReadDraft(uint64_t schema, const OperatorInfo& info);
  // Finds the kinds' numbers from the default values of arguments whose type allows only one kind.
  bool LearnTags(const std::vector<Draft>& drafts);
  bool FormatDefaults(Draft* draft);
  uint32_t bool_tag() const { return bool_tag_; }
  uint64_t tensor_type() const { return tensor_type_; }

 private:
  struct Range {
    uint64_t begin;
    uint64_t count;
  };
  // Reads a std::vector; nullopt: it makes no sense, or has more than `most` elements.
  std::optional<Range> ReadVector(uint64_t address, uint64_t element_bytes, uint64_t most) const;
  std::optional<bool> ReadFlag(uint64_t address) const;
  std::optional<std::string> ReadString(uint64_t address);
  bool ReadArguments(uint64_t vector, bool is_return, Draft* draft);
  bool ReadArgument(uint64_t address, bool is_return, Draft* draft);
  bool ReadAlias(uint64_t address, int depth, AliasSets* alias);
  bool ReadSets(uint64_t address, std::vector<std::string>* names);
  std::optional<std::string> FormatValue(const Value& value, int depth) const;
  std::optional<std::vector<Value>> ReadList(uint64_t list) const;
  std::optional<std::string> ReadConstantString(uint64_t object) const;
  std::optional<std::string> FormatDefault(const Draft::Default& entry) const;

  const TargetMemory& memory_;
  const InternedStrings* symbols_;
  bool old_abi_;
  bool flag_first_;
  uint64_t string_bytes_;
  TypeReader types_;
  uint32_t bool_tag_ = 0;
  uint64_t tensor_type_ = 0;
  size_t bytes_read_ = 0;
};

std::optional<bool> SchemaReader::ReadFlag(uint64_t address) const {
  uint8_t flag = 0;
  if (!memory_.Read(address, &flag, 1) || flag > 1) return std::nullopt;
  return flag != 0;
}

std::optional<SchemaReader::Range> SchemaReader::ReadVector(uint64_t address,
                                                            uint64_t element_bytes,
                                                            uint64_t most) const {
  uint64_t words[3];
  if (!memory_.Read(address, words, sizeof(words))) return std::nullopt;
  if (words[1] < words[0] || words[2] < words[1]) return std::nullopt;
  const uint64_t bytes = words[1] - words[0];
  if (bytes % element_bytes != 0 || bytes / element_bytes > most) return std::nullopt;
  return Range{words[0], bytes / element_bytes};
}

std::optional<std::string> SchemaReader::ReadString(uint64_t address) {
  auto text = ReadStdString(memory_, address, old_abi_, kMaxTextBytes);
  if (text) bytes_read_ += text->size();
  return text;
}

// An OperatorEntry has an OperatorName {name, overload name} and an optional<AnnotatedSchema>,
// which has a FunctionSchema and a debug string.
std::optional<SchemaReader::Place> SchemaReader::FindSchema(uint64_t operator_def) const {
  const uint64_t field = operator_def + 2 * string_bytes_;
  const uint64_t schema = field + (flag_first_ ? 8 : 0);
  const uint64_t flag = flag_first_ ? field : schema + (2 * string_bytes_ + 56) + string_bytes_;
  const auto is_there = ReadFlag(flag);
  if (!is_there) return std::nullopt;
  return Place{*is_there, schema};
}

bool SchemaReader::HasName(uint64_t schema, const OperatorInfo& info) const {
  return ReadStdString(memory_, schema, old_abi_, kMaxTextBytes) == info.name &&
         ReadStdString(memory_, schema + string_bytes_, old_abi_, kMaxTextBytes) ==
             info.overload_name;
}

// A std::unordered_set<Symbol> has the buckets, their number, the first node and the number of
// nodes. A node has the next one and a value.
bool SchemaReader::ReadSets(uint64_t address, std::vector<std::string>* names) {
  uint64_t words[4];
  if (!memory_.Read(address, words, sizeof(words)) || words[3] > kMostSets) return false;
  uint64_t node = words[2];
  for (uint64_t i = 0; i < words[3]; ++i) {
    uint64_t fields[2];
    if (symbols_ == nullptr || !memory_.Read(node, fields, sizeof(fields))) return false;
    auto name = symbols_->UnqualifiedName(static_cast<uint32_t>(fields[1]));
    if (!name || name->empty()) return false;
    bytes_read_ += name->size();
    names->push_back(*std::move(name));
    node = fields[0];
  }
  return node == 0;
}

// An AliasInfo has the sets before, the sets after, contained AliasInfos, and is_write.
bool SchemaReader::ReadAlias(uint64_t address, int depth, AliasSets* alias) {
  constexpr uint64_t kSetBytes = 56;
  constexpr uint64_t kAliasBytes = 2 * kSetBytes + 24 + 8;
  if (depth > 2) return false;
  const auto is_write = ReadFlag(address + 2 * kSetBytes + 24);
  const auto contained = ReadVector(address + 2 * kSetBytes, kAliasBytes, kMostContained);
  if (!is_write || !contained || !ReadSets(address, &alias->before) ||
      !ReadSets(address + kSetBytes, &alias->after)) {
    return false;
  }
  alias->is_write = *is_write;
  alias->contained.resize(contained->count);
  for (uint64_t i = 0; i < contained->count; ++i) {
    if (!ReadAlias(contained->begin + i * kAliasBytes, depth + 1, &alias->contained[i])) {
      return false;
    }
  }
  return true;
}

// Argument: name, type, real type, optional<int32_t>, optional<IValue>, unique_ptr<AliasInfo>,
// keyword only, is out. The real type is what the text shows: ScalarType, where the other is int.
bool SchemaReader::ReadArgument(uint64_t address, bool is_return, Draft* draft) {
  const uint64_t fields = address + string_bytes_;
  SchemaArgument argument;
  auto name = ReadString(address);
  uint64_t words[10];
  if (!name || !IsName(*name) || !memory_.Read(fields, words, 74)) return false;
  argument.name = *std::move(name);
  const TypeFacts* type = types_.Read(words[2]);
  if (type == nullptr || types_.Read(words[0]) == nullptr) return false;
  argument.type = type->text;
  if (tensor_type_ == 0 && type->class_name == "TensorType") tensor_type_ = words[2];
  argument.is_optional = type->shape == TypeShape::kOptional;
  const TypeFacts* inner = argument.is_optional ? types_.Read(type->element) : type;
  if (inner == nullptr) return false;
  argument.is_list = inner->shape == TypeShape::kList;
  const TypeFacts* element = argument.is_list ? types_.Read(inner->element) : inner;
  if (element == nullptr) return false;
  argument.element_type = element->text;

  const uint64_t size_at = fields + 32;
  const auto has_size = ReadFlag(size_at + (flag_first_ ? 0 : 4));
  const uint64_t value_at = fields + 40;
  const auto has_default = ReadFlag(value_at + (flag_first_ ? 0 : 16));
  uint8_t keyword_only = 0;
  std::memcpy(&keyword_only, &words[9], 1);
  if (!has_size || !has_default || keyword_only > 1) return false;
  argument.is_keyword_only = keyword_only != 0;
  if (*has_size) {
    int32_t size = 0;
    if (!memory_.Read(size_at + (flag_first_ ? 4 : 0), &size, sizeof(size))) return false;
    argument.size = size;
  }
  auto& arguments = is_return ? draft->schema.returns : draft->schema.arguments;
  if (*has_default) {
    Draft::Default entry{is_return, arguments.size(), type, inner, {}};
    if (!memory_.Read(value_at + (flag_first_ ? 8 : 0), &entry.value, 12)) return false;
    draft->defaults.push_back(entry);
  }
  if (words[8] != 0) {
    argument.alias.emplace();
    if (!ReadAlias(words[8], 0, &*argument.alias)) return false;
  }
  bytes_read_ += argument.type.size() + argument.element_type.size() + sizeof(argument);
  arguments.push_back(std::move(argument));
  return bytes_read_ < kMostBytes;
}

bool SchemaReader::ReadArguments(uint64_t vector, bool is_return, Draft* draft) {
  const uint64_t argument_bytes = string_bytes_ + 80;
  const auto range = ReadVector(vector, argument_bytes, kMostArguments);
  if (!range) return false;
  for (uint64_t i = 0; i < range->count; ++i) {
    if (!ReadArgument(range->begin + i * argument_bytes, is_return, draft)) return false;
  }
  return true;
}

// A FunctionSchema has an OperatorName, the arguments, the returns and two flags.
std::optional<Draft> SchemaReader::ReadDraft(uint64_t schema, const OperatorInfo& info) {
  Draft draft;
  draft.address = info.address;
  draft.schema.name = info.name;
  draft.schema.overload_name = info.overload_name;
  const uint64_t arguments = schema + 2 * string_bytes_;
  const auto variable_arguments = ReadFlag(arguments + 48);
  const auto variable_returns = ReadFlag(arguments + 49);
  if (!variable_arguments || !variable_returns ||
      !ReadArguments(arguments, /*is_return=*/false, &draft) ||
      !ReadArguments(arguments + 24, /*is_return=*/true, &draft)) {
    return std::nullopt;
  }
  draft.schema.has_variable_arguments = *variable_arguments;
  draft.schema.has_variable_returns = *variable_returns;
  return draft;
}

bool SchemaReader::LearnTags(const std::vector<Draft>& drafts) {
  for (const Draft& draft : drafts) {
    for (const Draft::Default& entry : draft.defaults) {
      const std::string& name = entry.type->class_name;
      if (name == "IntType" && entry.value.tag != kTagInt) return false;
      if (name != "BoolType") continue;
      if (bool_tag_ != 0 && entry.value.tag != bool_tag_) return false;
      bool_tag_ = entry.value.tag;
    }
  }
  return bool_tag_ >= kLeastBoolTag && bool_tag_ <= kMostBoolTag;
}

// A c10::detail::ListImpl is an intrusive_ptr_target, then a std::vector<IValue>. The target's
// header is a vtable and two counts of 4 bytes each, or 8 each (2.1 and before).
std::optional<std::vector<Value>> SchemaReader::ReadList(uint64_t list) const {
  const auto word = memory_.ReadWord(list + 16);
  if (!word) return std::nullopt;
  const uint64_t vector = list + (*word > 0 && *word < 0x10000 ? 24 : 16);
  const auto range = ReadVector(vector, kValueBytes, kMostListValues);
  if (!range) return std::nullopt;
  std::vector<Value> values(range->count);
  for (uint64_t i = 0; i < range->count; ++i) {
    if (!memory_.Read(range->begin + i * kValueBytes, &values[i], 12)) return std::nullopt;
  }
  return values;
}

// A c10::ivalue::ConstantString is an intrusive_ptr_target, then a std::string.
std::optional<std::string> SchemaReader::ReadConstantString(uint64_t object) const {
  const auto word = memory_.ReadWord(object + 16);
  if (!word) return std::nullopt;
  return ReadStdString(memory_, object + (*word < 0x10000 ? 24 : 16), old_abi_, kMaxTextBytes);
}

std::optional<std::string> SchemaReader::FormatValue(const Value& value, int depth) const {
  if (value.tag == kTagNone) return "None";
  if (value.tag == kTagInt) return std::to_string(static_cast<int64_t>(value.payload));
  if (value.tag == bool_tag_) return (value.payload & 0xff) != 0 ? "True" : "False";
  if (value.tag == kTagDouble) {
    double number;
    std::memcpy(&number, &value.payload, sizeof(number));
    return FormatTorchDouble(number);
  }
  if (value.tag == bool_tag_ + kStringAfterBool) return ReadConstantString(value.payload);
  if (value.tag != bool_tag_ + kListAfterBool || depth > 2) return std::nullopt;
  const auto values = ReadList(value.payload);
  if (!values) return std::nullopt;
  std::string text = "[";
  for (const Value& element : *values) {
    const auto part = FormatValue(element, depth + 1);
    if (!part) return std::nullopt;
    if (text.size() > 1) text += ", ";
    text += *part;
  }
  return text + "]";
}

// Writes a default value as `ostream << Argument` does: strings are quoted, and int[2]=[1, 1] is
// written as 1.
std::optional<std::string> SchemaReader::FormatDefault(const Draft::Default& entry) const {
  auto text = FormatValue(entry.value, 0);
  if (!text) return std::nullopt;
  if (entry.inner->class_name == "StringType" && entry.value.tag == bool_tag_ + kStringAfterBool) {
    return QuoteString(*text);
  }
  if (entry.type->text == "int[]" && entry.value.tag == bool_tag_ + kListAfterBool) {
    const auto values = ReadList(entry.value.payload);
    const bool same = values && values->size() > 1 &&
                      std::all_of(values->begin(), values->end(), [&](const Value& v) {
                        return v.payload == values->front().payload;
                      });
    if (same) return FormatValue(values->front(), 1);
  }
  return text;
}

bool SchemaReader::FormatDefaults(Draft* draft) {
  for (const Draft::Default& entry : draft->defaults) {
    auto& arguments = entry.is_return ? draft->schema.returns : draft->schema.arguments;
    arguments[entry.index].default_value = FormatDefault(entry);
    if (!arguments[entry.index].default_value) return false;
  }
  return true;
}

// Whether `flag_first` is the form of optionals in this process: with the right form, the schemas
// of the first operators repeat the operators' names.
bool IsForm(const TargetMemory& memory, const std::vector<OperatorInfo>& operators, bool old_abi,
            bool flag_first) {
  const SchemaReader reader(memory, old_abi, flag_first, nullptr);
  int with_name = 0;
  for (const OperatorInfo& info : operators) {
    const auto place = reader.FindSchema(info.address);
    if (!place) return false;
    if (!place->is_there) continue;
    if (!reader.HasName(place->address, info)) return false;
    if (++with_name == 16) break;
  }
  return with_name > 0;
}

std::string FormatAlias(const AliasSets& alias) {
  const auto join = [](const std::vector<std::string>& sets) {
    std::string text;
    for (const std::string& set : sets) text += (text.empty() ? "" : "|") + set;
    return text;
  };
  std::string text = "(" + join(alias.before) + (alias.is_write ? "!" : "");
  std::vector<std::string> before = alias.before;
  std::vector<std::string> after = alias.after;
  std::sort(before.begin(), before.end());
  std::sort(after.begin(), after.end());
  if (before != after) text += " -> " + join(alias.after);
  return text + ")";
}

std::string FormatArgument(const SchemaArgument& argument) {
  std::string text = argument.element_type;
  if (argument.is_list) {
    if (argument.alias && !argument.alias->contained.empty()) {
      text += FormatAlias(argument.alias->contained[0]);
    }
    text += "[" + (argument.size ? std::to_string(*argument.size) : "") + "]";
  }
  if (argument.alias && !argument.alias->before.empty()) text += FormatAlias(*argument.alias);
  if (argument.is_optional) text += "?";
  if (!argument.name.empty()) text += " " + argument.name;
  if (argument.default_value) text += "=" + *argument.default_value;
  return text;
}

}  // namespace

std::string FormatSchema(const OperatorSchema& schema) {
  std::string text = schema.name;
  if (!schema.overload_name.empty()) text += "." + schema.overload_name;
  text += "(";
  bool seen_keyword_only = false;
  for (size_t i = 0; i < schema.arguments.size(); ++i) {
    if (i > 0) text += ", ";
    if (schema.arguments[i].is_keyword_only && !seen_keyword_only) text += "*, ";
    seen_keyword_only |= schema.arguments[i].is_keyword_only;
    text += FormatArgument(schema.arguments[i]);
  }
  if (schema.has_variable_arguments) text += schema.arguments.empty() ? "..." : ", ...";
  text += ") -> ";
  std::string returns;
  for (const SchemaArgument& value : schema.returns) {
    returns += (returns.empty() ? "" : ", ") + FormatArgument(value);
  }
  // A single return is written without parentheses, unless it would look like several returns.
  const bool is_single = schema.returns.size() == 1 && !schema.has_variable_returns;
  const bool is_bare = (is_single && !returns.starts_with('(')) ||
                       (schema.returns.empty() && schema.has_variable_returns);
  if (schema.has_variable_returns) returns += schema.returns.empty() ? "..." : ", ...";
  return text + (is_bare ? returns : "(" + returns + ")");
}

SchemaReading ReadSchemas(const TargetMemory& memory, const std::vector<OperatorInfo>& operators,
                          bool old_abi, const InternedStrings* symbols) {
  SchemaReading reading;
  if (operators.empty()) {
    reading.refusal = "the Dispatcher's operators could not be read";
    return reading;
  }
  const bool flag_first = !IsForm(memory, operators, old_abi, false);
  if (flag_first && !IsForm(memory, operators, old_abi, true)) {
    reading.refusal = "the layout of the Dispatcher's entries is not known";
    return reading;
  }
  SchemaReader reader(memory, old_abi, flag_first, symbols);
  std::vector<Draft> drafts;
  for (const OperatorInfo& info : operators) {
    const auto place = reader.FindSchema(info.address);
    if (place && !place->is_there) {
      ++reading.without_definition;
      continue;
    }
    auto draft = place && reader.HasName(place->address, info)
                     ? reader.ReadDraft(place->address, info)
                     : std::nullopt;
    if (draft) {
      drafts.push_back(*std::move(draft));
    } else {
      ++reading.unreadable;
    }
  }
  if (!reader.LearnTags(drafts)) {
    reading.refusal = "the layout of default values is not known";
    return reading;
  }
  reading.bool_tag = reader.bool_tag();
  reading.tensor_type = reader.tensor_type();
  for (Draft& draft : drafts) {
    if (!reader.FormatDefaults(&draft)) {
      ++reading.unreadable;
      continue;
    }
    reading.schemas[draft.address] =
        std::make_unique<const OperatorSchema>(std::move(draft.schema));
  }
  return reading;
}

}  // namespace proftrace
