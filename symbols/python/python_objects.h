// Objects of a CPython process, read from outside. Nothing there is trusted: every size is checked,
// every walk is bounded, and what does not read is nullopt.
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

// An item of a dict: where the key and the value lie. `hash`: the key's; 0 where it is not kept.
struct PythonItem {
  uint64_t hash = 0;
  uint64_t key = 0;
  uint64_t value = 0;

  bool operator==(const PythonItem&) const = default;
};

class PythonObjects {
 public:
  // Both must outlive this.
  PythonObjects(const TargetMemory& memory, const PythonLayout& layout)
      : memory_(memory), layout_(layout) {}

  // Returns the name of the object's class as C has it ("code", "str", "Linear").
  std::optional<std::string> TypeName(uint64_t object) const;
  // Returns the class of an object, if it has all bits of `flag`.
  std::optional<uint64_t> TypeOf(uint64_t object, uint64_t flag) const;
  // Returns a str, or an instance of a class made from it; one longer than `limit_bytes` is cut
  // there (in its own bytes, before it becomes UTF-8).
  std::optional<std::string> Text(uint64_t object, size_t limit_bytes) const;
  // Returns a bytes object; nullopt: it is longer than `limit_bytes`.
  std::optional<std::vector<uint8_t>> Bytes(uint64_t object, size_t limit_bytes) const;
  // Returns an int from 0 to 2^60 - 1 (or an instance of a class made from it).
  std::optional<uint64_t> Number(uint64_t object) const;
  // Returns the items of a tuple or a list; nullopt: anything else, or more than kMostItems.
  std::optional<std::vector<uint64_t>> Items(uint64_t object) const;
  // Returns the items of a dict (or of an instance of a class made from it) in their order, which
  // is not sure for an instance's own. nullopt: anything else, or more than kMostItems.
  std::optional<std::vector<PythonItem>> DictItems(uint64_t object) const;
  // Returns the value of a key that is a str; nullopt: there is none.
  std::optional<uint64_t> DictValue(uint64_t dict, std::string_view key) const;
  // Returns an attribute that the object itself has, in its __dict__; nullopt: there is none.
  // Attributes of its class, and of __slots__, are not looked at.
  std::optional<uint64_t> Attribute(uint64_t object, std::string_view name) const;
  // Returns the names of the object's class and of all that it is made from, as in __mro__.
  std::vector<std::string> ClassNames(uint64_t object) const;
  // Returns the __dict__ of a module of sys.modules; nullopt: there is none of the name.
  std::optional<uint64_t> ModuleVariables(uint64_t interpreter, std::string_view name) const;

  static constexpr size_t kMostItems = size_t{1} << 20;
  // Returns where an object has the pointer to its class.
  static uint64_t TypeOffset(const PythonLayout& layout) { return 8 + layout.stack.object_head; }
  // Whether the object counts references: what is freed counts none, whatever else it still says.
  bool IsReferenced(uint64_t object) const;

 private:
  // Returns the items of the table of keys at `keys`; `values`: where the values lie if it is
  // shared by several dicts, 0 = in the table itself.
  std::optional<std::vector<PythonItem>> KeysItems(uint64_t keys, uint64_t values) const;
  std::optional<std::vector<PythonItem>> AttributeItems(uint64_t object) const;
  std::optional<uint64_t> Find(const std::optional<std::vector<PythonItem>>& items,
                               std::string_view key) const;
  // Returns where the values of a dict with shared keys begin.
  uint64_t ValuesAt(uint64_t values) const;
  // Reads the word at `offset`, as far behind the head as with a global interpreter lock.
  std::optional<uint64_t> Word(uint64_t object, uint64_t offset) const {
    return memory_.ReadWord(object + offset + layout_.stack.object_head);
  }
  // Returns a text of C; nullopt: it is longer than `limit_bytes`.
  std::optional<std::string> CText(uint64_t address, size_t limit_bytes) const;

  const TargetMemory& memory_;
  const PythonLayout& layout_;
};

}  // namespace proftrace
