// Objects of a CPython process, read from outside. Nothing there is trusted: every size is checked,
// every walk is bounded, and what does not read is nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "symbols/process_memory.h"
#include "symbols/python_layout.h"

namespace proftrace {

// The characters of a str as UTF-8: `width` bytes each (1: Latin-1, 2 or 4: code points). What is
// no character (a lone surrogate, a number past U+10FFFF) becomes U+FFFD.
std::string PythonTextToUtf8(std::span<const uint8_t> characters, size_t width);

class PythonObjects {
 public:
  // Both must outlive this.
  PythonObjects(const TargetMemory& memory, const PythonLayout& layout)
      : memory_(memory), layout_(layout) {}

  // The name of the object's class as C has it ("code", "str", "Linear").
  std::optional<std::string> TypeName(uint64_t object) const;
  // A str, or an instance of a class made from it; one longer than `limit_bytes` is cut there (of
  // its own bytes, before it becomes UTF-8).
  std::optional<std::string> Text(uint64_t object, size_t limit_bytes) const;
  // A bytes object; nothing for one longer than `limit_bytes`.
  std::optional<std::vector<uint8_t>> Bytes(uint64_t object, size_t limit_bytes) const;

 private:
  // The class of an object, if it has all bits of `flag`.
  std::optional<uint64_t> TypeOf(uint64_t object, uint64_t flag) const;
  // A text of C; nothing for one longer than `limit_bytes`.
  std::optional<std::string> CText(uint64_t address, size_t limit_bytes) const;

  const TargetMemory& memory_;
  const PythonLayout& layout_;
};

}  // namespace proftrace
