// What the analysis of machine code needs to know of the file with the code. Tests put made-up code
// in its place.
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
  std::string_view name;  // mangled; empty where only unwind tables know the function
};

// Returns the function's mangled symbol; sub_ADDRESS where it has none.
std::string SymbolOf(const FunctionRange& range);

// Returns a symbol as people write it, unchanged where it is no C++ name.
std::string ReadableName(const std::string& symbol);

class CodeImage {
 public:
  virtual ~CodeImage() = default;
  // Reads up to `bytes` at virtual address `address`; returns how many.
  virtual size_t ReadCode(uint64_t address, void* buffer, size_t bytes) const = 0;
  // Name of the function that starts exactly at `address`, or that the PLT stub there leads to;
  // empty = not known.
  virtual std::string_view CalleeName(uint64_t address) const = 0;
  // Name of the import whose GOT slot is at `address`; empty = none.
  virtual std::string_view SlotName(uint64_t address) const = 0;
  // True for the address of a PLT stub.
  virtual bool IsPltStub(uint64_t address) const = 0;
  // The function around `address`, by symbol tables, else by unwind tables.
  virtual std::optional<FunctionRange> FunctionAt(uint64_t address) const = 0;
};

}  // namespace proftrace
