// Reads objects of a CPython process from outside. Nothing that is read is trusted: every size is
// checked, every walk is bounded, and a function returns nullopt where an object cannot be read.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "symbols/process/process_memory.h"
#include "symbols/python/python_layout.h"

namespace proftrace {

// An item of a dict: the addresses of the key and the value. `hash`: the key's hash; 0 where the
// dict does not keep it.
struct PythonItem {
  uint64_t hash = 0;
  uint64_t key = 0;
  uint64_t value = 0;

  bool operator==(const PythonItem&) const = default;
};

class PythonObjects {
 public:
  // `memory` and `layout` must outlive the object.
  PythonObjects(const TargetMemory& memory, const PythonLayout& layout)
      : memory_(memory), layout_(layout) {}

  // Returns the name of the object's class, as tp_name has it ("code", "str", "Linear").
  std::optional<std::string> TypeName(uint64_t object) const;
  // Returns the address of an object's class, if the class's flags have all bits of `flag`.
  std::optional<uint64_t> TypeOf(uint64_t object, uint64_t flag) const;
  // Returns the text of a str, or of an instance of a subclass, as UTF-8. A longer text is cut
  // after `limit_bytes` of its own bytes.
  std::optional<std::string> Text(uint64_t object, size_t limit_bytes) const;
  // Returns the content of a bytes object; nullopt: it is none, or is longer than `limit_bytes`.
  std::optional<std::vector<uint8_t>> Bytes(uint64_t object, size_t limit_bytes) const;
  // Returns the value of an int, or of an instance of a subclass; nullopt: it is none, or does not
  // lie between 0 and 2^60 - 1.
  std::optional<uint64_t> Number(uint64_t object) const;
  // Returns the items of a tuple or a list; nullopt: the object is neither, or has more than
  // kMostItems.
  std::optional<std::vector<uint64_t>> Items(uint64_t object) const;
  // Returns the items of a dict, or of an instance of a subclass, in their order; the order of an
  // instance's attributes is not certain. nullopt: the object is no dict, or has more than
  // kMostItems.
  std::optional<std::vector<PythonItem>> DictItems(uint64_t object) const;
  // Returns the address of the value for a key that is a str; nullopt: the dict has no such key.
  std::optional<uint64_t> DictValue(uint64_t dict, std::string_view key) const;
  // Returns the address of an attribute in the object's own __dict__; nullopt: there is none. Does
  // not look at attributes of the class or at __slots__.
  std::optional<uint64_t> Attribute(uint64_t object, std::string_view name) const;
  // Returns the names of the object's class and its base classes, in the order of __mro__.
  std::vector<std::string> ClassNames(uint64_t object) const;
  // Returns the address of the __dict__ of a module in sys.modules; nullopt: there is no module of
  // that name.
  std::optional<uint64_t> ModuleVariables(uint64_t interpreter, std::string_view name) const;

  static constexpr size_t kMostItems = size_t{1} << 20;
  // Returns the offset at which objects have the pointer to their class.
  static uint64_t TypeOffset(const PythonLayout& layout) { return 8 + layout.stack.object_head; }
  // Whether the object has references. The memory of a freed object may still look like the object,
  // but its count is 0.
  bool IsReferenced(uint64_t object) const;

 private:
  // Returns the items of the table of keys at `keys`. `values`: the address of the values, where
  // several dicts share the keys; 0 = the values lie in the table itself.
  std::optional<std::vector<PythonItem>> KeysItems(uint64_t keys, uint64_t values) const;
  std::optional<std::vector<PythonItem>> AttributeItems(uint64_t object) const;
  std::optional<uint64_t> Find(const std::optional<std::vector<PythonItem>>& items,
                               std::string_view key) const;
  // Returns where the values of a dict with shared keys begin.
  uint64_t ValuesAt(uint64_t values) const;
  // Reads the word at `offset`, which is that of a build with a global interpreter lock: where the
  // head is longer, the word lies as much further.
  std::optional<uint64_t> Word(uint64_t object, uint64_t offset) const {
    return memory_.ReadWord(object + offset + layout_.stack.object_head);
  }
  // Returns a NUL-terminated text; nullopt: it cannot be read, or is longer than `limit_bytes`.
  std::optional<std::string> CText(uint64_t address, size_t limit_bytes) const;

  const TargetMemory& memory_;
  const PythonLayout& layout_;
};

}  // namespace proftrace
