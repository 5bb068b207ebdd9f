#include "symbols/python/python_objects.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "userspace/base/byte_view.h"
#include "userspace/model/python_stack.h"

namespace proftrace {
namespace {

// Offsets that are equal in every version with the global interpreter lock. In a free-threaded
// build all of them but those of the head itself are larger by pt_python_layout.object_head.
constexpr uint64_t kTypeNameOffset = 24;  // in a class: the pointer to tp_name
constexpr uint64_t kTypeFlagsOffset = 168;
constexpr uint64_t kTypeBasicSizeOffset = 32;
constexpr uint64_t kTypeDictOffset = 288;
constexpr uint64_t kTypeMroOffset = 344;
constexpr uint64_t kSizeOffset = 16;  // in a tuple or a list
// In an int: its digits of 30 bits, each in 4 bytes, the lowest first
constexpr uint64_t kDigitsOffset = 24;
constexpr uint64_t kListItemsOffset = 24;
constexpr uint64_t kDictKeysOffset = 32;
constexpr uint64_t kDictValuesOffset = 40;
constexpr uint64_t kModuleVariablesOffset = 16;

// In the head of an object of a free-threaded build: ob_ref_local, ob_ref_shared.
constexpr uint64_t kOwnReferencesOffset = 12;
constexpr uint64_t kOtherReferencesOffset = 16;

constexpr uint64_t kInlineValuesFlag = uint64_t{1} << 2;  // 3.13 and later
constexpr uint64_t kManagedDictFlag = uint64_t{1} << 4;   // 3.11 and later
constexpr uint64_t kLongFlag = uint64_t{1} << 24;         // Py_TPFLAGS_LONG_SUBCLASS
constexpr uint64_t kListFlag = uint64_t{1} << 25;
constexpr uint64_t kTupleFlag = uint64_t{1} << 26;
constexpr uint64_t kDictFlag = uint64_t{1} << 29;
constexpr uint64_t kTextFlag = uint64_t{1} << 28;   // Py_TPFLAGS_UNICODE_SUBCLASS
constexpr uint64_t kBytesFlag = uint64_t{1} << 27;  // Py_TPFLAGS_BYTES_SUBCLASS

constexpr size_t kMostTypeNameBytes = 256;
constexpr size_t kMostClasses = 256;  // the most classes in the __mro__ of a class

}  // namespace

std::optional<uint64_t> PythonObjects::TypeOf(uint64_t object, uint64_t flag) const {
  const auto type = memory_.ReadWord(object + TypeOffset(layout_));
  const auto flags = type ? Word(*type, kTypeFlagsOffset) : std::nullopt;
  if (!flags || (*flags & flag) != flag) return std::nullopt;
  return type;
}

// A free-threaded build counts the references of the thread that owns the object in four bytes, and
// those of all other threads in another word, above its two lowest bits.
bool PythonObjects::IsReferenced(uint64_t object) const {
  if (layout_.stack.object_head == 0) {
    return static_cast<uint32_t>(memory_.ReadWord(object).value_or(0)) != 0;
  }
  uint32_t own = 0;
  if (!memory_.Read(object + kOwnReferencesOffset, &own, sizeof(own))) return false;
  return own != 0 || memory_.ReadWord(object + kOtherReferencesOffset).value_or(0) >> 2 != 0;
}

std::optional<std::string> PythonObjects::CText(uint64_t address, size_t limit_bytes) const {
  std::string text;
  std::array<char, 32> part;
  while (text.size() < limit_bytes) {
    // No read crosses the end of a page, because the next page may not be mapped.
    const uint64_t at = address + text.size();
    const size_t bytes = std::min<uint64_t>(part.size(), 4096 - at % 4096);
    if (!memory_.Read(at, part.data(), bytes)) return std::nullopt;
    const size_t length = strnlen(part.data(), bytes);
    text.append(part.data(), length);
    if (length < bytes) return text;
  }
  return std::nullopt;
}

std::optional<uint64_t> PythonObjects::Number(uint64_t object) const {
  const auto size = TypeOf(object, kLongFlag) ? Word(object, kSizeOffset) : std::nullopt;
  if (!size) return std::nullopt;
  // Since 3.12 the number of digits lies above three bits: two for the sign (2 = negative) and one
  // that the interpreter uses itself.
  const bool has_tag = layout_.stack.version >= kPython312;
  if (has_tag && (*size & 3) == 2) return std::nullopt;
  const uint64_t digits = has_tag ? *size >> 3 : *size;
  if (digits == 0 || (has_tag && (*size & 3) == 1)) return 0;
  uint32_t digit[2] = {0, 0};
  if (digits > std::size(digit) || !memory_.Read(object + kDigitsOffset + layout_.stack.object_head,
                                                 digit, digits * sizeof(digit[0]))) {
    return std::nullopt;
  }
  return uint64_t{digit[1]} << 30 | digit[0];
}

std::optional<std::string> PythonObjects::TypeName(uint64_t object) const {
  const auto type = TypeOf(object, 0);
  const auto name = type ? Word(*type, kTypeNameOffset) : std::nullopt;
  return name ? CText(*name, kMostTypeNameBytes) : std::nullopt;
}

std::optional<std::string> PythonObjects::Text(uint64_t object, size_t limit_bytes) const {
  const abi::pt_python_layout& layout = layout_.stack;
  if (!TypeOf(object, kTextFlag)) return std::nullopt;
  std::array<uint8_t, kPythonTextHeadBytes> head;
  const size_t head_bytes =
      std::max<size_t>(layout.text_state + sizeof(uint32_t), layout.text_length + sizeof(uint64_t));
  if (head_bytes > head.size() || !memory_.Read(object, head.data(), head_bytes)) {
    return std::nullopt;
  }
  const ByteView read(head.data(), head_bytes);
  const auto characters_there = read.Get<uint64_t>(layout.text_length);
  const auto state_there = read.Get<uint32_t>(layout.text_state);
  if (!characters_there || !state_there) return std::nullopt;
  const uint64_t length = *characters_there;
  const uint32_t state = *state_there >> (layout.text_shift & 31U);
  const size_t width = (state >> 2U) & 7U;
  const bool is_compact = (state & 32U) != 0;
  const bool is_ascii = (state & 64U) != 0;
  if (width != 1 && width != 2 && width != 4) return std::nullopt;
  uint64_t at = object + (is_ascii ? layout.text_ascii : layout.text_wide);
  if (!is_compact) {
    // An instance of a subclass of str has a pointer to its characters where a compact str has the
    // characters.
    const auto characters = memory_.ReadWord(object + layout.text_wide);
    if (!characters) return std::nullopt;
    at = *characters;
  }
  std::vector<uint8_t> characters(std::min<uint64_t>(length, limit_bytes / width) * width);
  if (!memory_.Read(at, characters.data(), characters.size())) return std::nullopt;
  return PythonTextToUtf8(characters, width);
}

std::optional<std::vector<uint8_t>> PythonObjects::Bytes(uint64_t object,
                                                         size_t limit_bytes) const {
  if (!TypeOf(object, kBytesFlag)) return std::nullopt;
  const auto length = memory_.ReadWord(object + layout_.stack.bytes_length);
  if (!length || *length > limit_bytes) return std::nullopt;
  std::vector<uint8_t> bytes(*length);
  if (!memory_.Read(object + layout_.stack.bytes_data, bytes.data(), bytes.size())) {
    return std::nullopt;
  }
  return bytes;
}

std::optional<std::vector<uint64_t>> PythonObjects::Items(uint64_t object) const {
  const bool is_tuple = TypeOf(object, kTupleFlag).has_value();
  if (!is_tuple && !TypeOf(object, kListFlag)) return std::nullopt;
  const auto count = Word(object, kSizeOffset);
  const auto first =
      is_tuple ? std::optional(object + layout_.tuple_items) : Word(object, kListItemsOffset);
  if (!count || !first || *count > kMostItems) return std::nullopt;
  std::vector<uint64_t> items(*count);
  if (!memory_.Read(*first, items.data(), items.size() * sizeof(uint64_t))) return std::nullopt;
  return items;
}

uint64_t PythonObjects::ValuesAt(uint64_t values) const {
  return layout_.stack.version >= kPython313 ? values + 8 : values;
}

// A PyDictKeysObject has a head, then the indices of the hash table, then the entries in order of
// their insertion.
std::optional<std::vector<PythonItem>> PythonObjects::KeysItems(uint64_t keys,
                                                                uint64_t values) const {
  uint64_t words[5];
  if (!memory_.Read(keys, words, sizeof(words))) return std::nullopt;
  uint64_t entries = 0;
  uint64_t count = 0;
  bool has_hashes = true;
  if (layout_.stack.version >= kPython311) {
    // The word holds, in a byte each, the logarithms of the number of indices and of their size in
    // bytes, then the kind of keys.
    const uint64_t index_bytes_log = (words[1] >> 8U) & 0xffU;
    has_hashes = ((words[1] >> 16U) & 0xffU) == 0;
    count = words[3];
    if (index_bytes_log > 40) return std::nullopt;
    entries = keys + 32 + (uint64_t{1} << index_bytes_log);
  } else {
    const uint64_t size = words[1];
    count = words[4];
    const uint64_t width = size <= 0xff ? 1 : size <= 0xffff ? 2 : size <= 0xffffffff ? 4 : 8;
    if (size > uint64_t{1} << 40U) return std::nullopt;
    entries = keys + 40 + size * width;
  }
  if (count > kMostItems) return std::nullopt;
  const size_t entry_words = has_hashes ? 3 : 2;
  std::vector<uint64_t> table(count * entry_words);
  std::vector<uint64_t> shared(values == 0 ? 0 : count);
  if (!memory_.Read(entries, table.data(), table.size() * sizeof(uint64_t)) ||
      !memory_.Read(values, shared.data(), shared.size() * sizeof(uint64_t))) {
    return std::nullopt;
  }
  std::vector<PythonItem> items;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t* entry = &table[i * entry_words];
    PythonItem item;
    if (has_hashes) item.hash = *entry++;
    item.key = entry[0];
    item.value = values == 0 ? entry[1] : shared[i];
    if (item.key != 0 && item.value != 0) items.push_back(item);
  }
  return items;
}

std::optional<std::vector<PythonItem>> PythonObjects::DictItems(uint64_t object) const {
  if (!TypeOf(object, kDictFlag)) return std::nullopt;
  const auto keys = Word(object, kDictKeysOffset);
  const auto values = Word(object, kDictValuesOffset);
  if (!keys || !values) return std::nullopt;
  return KeysItems(*keys, *values == 0 ? 0 : ValuesAt(*values));
}

// Before 3.11 an instance keeps its attributes in a dict. Since then it keeps them in values whose
// keys the class has, until somebody asks for the dict (Objects/object.c and dictobject.c of each
// version).
std::optional<std::vector<PythonItem>> PythonObjects::AttributeItems(uint64_t object) const {
  const auto type = TypeOf(object, 0);
  const auto flags = type ? Word(*type, kTypeFlagsOffset) : std::nullopt;
  if (!flags) return std::nullopt;
  if (layout_.stack.version < kPython311 || (*flags & kManagedDictFlag) == 0) {
    const auto offset = Word(*type, kTypeDictOffset);
    if (!offset || *offset == 0 || *offset > 4096) return std::nullopt;
    const auto dict = memory_.ReadWord(object + *offset);
    return dict ? DictItems(*dict) : std::nullopt;
  }
  // The pointer lies in front of the object. With a global interpreter lock, the garbage
  // collector's two words lie between.
  auto dict = memory_.ReadWord(object - (layout_.stack.object_head == 0 ? 24 : 8));
  uint64_t values = 0;
  if (layout_.stack.version == kPython311) {
    values = memory_.ReadWord(object - 32).value_or(0);
  } else if (layout_.stack.version == kPython312) {
    // One word holds either pointer. An odd word is the address of the values less one.
    if (dict && (*dict & 1U) != 0) values = *dict + 1;
  } else if (dict == uint64_t{0} && (*flags & kInlineValuesFlag) != 0) {
    const auto size = Word(*type, kTypeBasicSizeOffset);
    uint8_t head[4];  // capacity, size, whether the values are embedded, whether they are valid
    if (!size || *size > 4096 || !memory_.Read(object + *size, head, sizeof(head)) ||
        head[3] != 1) {
      return std::nullopt;
    }
    values = object + *size;
  }
  if (values == 0) return dict ? DictItems(*dict) : std::nullopt;
  const auto keys = memory_.ReadWord(*type + layout_.shared_keys);
  return keys && *keys != 0 ? KeysItems(*keys, ValuesAt(values)) : std::nullopt;
}

std::optional<uint64_t> PythonObjects::Find(const std::optional<std::vector<PythonItem>>& items,
                                            std::string_view key) const {
  if (!items) return std::nullopt;
  for (const PythonItem& item : *items) {
    const auto length = memory_.ReadWord(item.key + layout_.stack.text_length);
    if (length == key.size() && Text(item.key, key.size() + 1) == key) return item.value;
  }
  return std::nullopt;
}

std::optional<uint64_t> PythonObjects::DictValue(uint64_t dict, std::string_view key) const {
  return Find(DictItems(dict), key);
}

std::optional<uint64_t> PythonObjects::Attribute(uint64_t object, std::string_view name) const {
  return Find(AttributeItems(object), name);
}

std::vector<std::string> PythonObjects::ClassNames(uint64_t object) const {
  std::vector<std::string> names;
  const auto type = TypeOf(object, 0);
  const auto order = type ? Word(*type, kTypeMroOffset) : std::nullopt;
  const auto classes = order ? Items(*order) : std::nullopt;
  if (!classes || classes->size() > kMostClasses) return names;
  for (const uint64_t one : *classes) {
    const auto name = Word(one, kTypeNameOffset);
    names.push_back(name ? CText(*name, kMostTypeNameBytes).value_or("") : "");
  }
  return names;
}

std::optional<uint64_t> PythonObjects::ModuleVariables(uint64_t interpreter,
                                                       std::string_view name) const {
  const auto modules = memory_.ReadWord(interpreter + layout_.interpreter_modules);
  const auto module = modules ? DictValue(*modules, name) : std::nullopt;
  if (!module || TypeName(*module) != "module") return std::nullopt;
  return Word(*module, kModuleVariablesOffset);
}

}  // namespace proftrace
