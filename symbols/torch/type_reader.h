// Reads types of operator arguments (c10::Type) from a live process.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "symbols/process/process_memory.h"

namespace proftrace {

enum class TypeShape : uint8_t { kPlain, kList, kOptional };

struct TypeFacts {
  TypeShape shape = TypeShape::kPlain;
  std::string class_name;  // the C++ class in c10: "IntType"
  std::string text;  // as torch's Type::str() returns it: "int", "Tensor?[]", "Dict(str, Tensor)"
  uint64_t element = 0;  // address of the element's type, for kList and kOptional
};

// Reads types. Recognises a type's class by the name in its run-time type information, never by its
// `kind` number, which differs between versions. Object layouts (jit_type_base.h and jit_type.h,
// 1.13 to 2.15): vtable 0, kind 8, weak_ptr 16 (SharedType), then the class's own fields; each
// contained pointer must again point to a known class.
class TypeReader {
 public:
  // `old_abi`: pre-C++11 strings; `flag_first`: c10::optional of 1.13. `memory` must outlive this.
  TypeReader(const TargetMemory& memory, bool old_abi, bool flag_first)
      : memory_(memory), old_abi_(old_abi), flag_first_(flag_first) {}

  // Returns the facts of a type. Null: there is no type of a known class at `address`. The pointer
  // is valid as long as the reader.
  const TypeFacts* Read(uint64_t address) { return Read(address, 0); }

 private:
  const TypeFacts* Read(uint64_t address, int depth);
  std::optional<std::string> ClassName(uint64_t address);
  bool Describe(uint64_t address, int depth, TypeFacts* facts);
  std::optional<std::string> JoinElements(uint64_t vector, int depth);
  std::optional<std::string> QualifiedName(uint64_t address) const;

  const TargetMemory& memory_;
  bool old_abi_;
  bool flag_first_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<const TypeFacts>> types_;
  absl::flat_hash_map<uint64_t, std::string> class_names_;  // by vtable; empty = none
  size_t visits_ = 0;
};

}  // namespace proftrace
