// The interface by which the analysis of machine code reads the file with the code. Tests implement
// it with made-up code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace proftrace {

struct FunctionRange {
  uint64_t start = 0;
  uint64_t end = 0;
  std::string_view name;  // mangled; empty where the function is known from unwind tables only
};

// Returns the function's mangled symbol, or sub_ADDRESS where it has none.
std::string SymbolOf(const FunctionRange& range);

// Returns a symbol demangled, or unchanged where it is no C++ name.
std::string ReadableName(const std::string& symbol);

class CodeImage {
 public:
  virtual ~CodeImage() = default;
  // Reads up to `bytes` at the virtual address `address`; returns how many were read.
  virtual size_t ReadCode(uint64_t address, void* buffer, size_t bytes) const = 0;
  // Returns the name of the function that starts exactly at `address`, or to which the PLT stub
  // there leads; empty: not known.
  virtual std::string_view CalleeName(uint64_t address) const = 0;
  // Returns the name of the import whose GOT slot is at `address`; empty: there is none.
  virtual std::string_view SlotName(uint64_t address) const = 0;
  // Whether a PLT stub begins at `address`.
  virtual bool IsPltStub(uint64_t address) const = 0;
  // Returns the function around `address`, by symbol tables or else by unwind tables.
  virtual std::optional<FunctionRange> FunctionAt(uint64_t address) const = 0;
};

}  // namespace proftrace
