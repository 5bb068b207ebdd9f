// Reads torch's interned strings (c10::Symbol) from a live process. The names of alias sets in
// operator schemas are such symbols.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "symbols/process/process_memory.h"

namespace proftrace {

// c10::InternedStrings::sym_to_info_: a std::vector of {Symbol namespace; std::string qualified,
// unqualified}, in the order of the symbols' numbers.
class InternedStrings {
 public:
  // Looks for the vector in `data`, the zero-initialized data of the library that defines torch's
  // operators, and recognises it by its size and its first entry, "namespaces::prim". nullopt: it
  // was not found. `memory` must outlive the result.
  static std::optional<InternedStrings> Find(const TargetMemory& memory, const MemoryRange& data,
                                             bool old_abi);

  // Reads the vector once more at `place`, where Find() has found it before, because it grows.
  static std::optional<InternedStrings> At(const TargetMemory& memory, uint64_t place,
                                           bool old_abi);

  // Returns the part of a symbol's name after "::"; nullopt: the number is no symbol's.
  std::optional<std::string> UnqualifiedName(uint32_t symbol) const;
  // Returns the whole name, "aten::relu".
  std::optional<std::string> QualifiedName(uint32_t symbol) const;
  uint64_t place() const { return place_; }

 private:
  InternedStrings(const TargetMemory& memory, uint64_t place, uint64_t begin, uint64_t count,
                  bool old_abi)
      : memory_(&memory), place_(place), begin_(begin), count_(count), old_abi_(old_abi) {}

  std::optional<std::string> TextAt(uint32_t symbol, uint64_t offset) const;

  const TargetMemory* memory_;
  uint64_t place_;
  uint64_t begin_;
  uint64_t count_;
  bool old_abi_;
};

}  // namespace proftrace
