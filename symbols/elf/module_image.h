// The code of one mapped file, with its functions by symbol tables and unwind tables, and its
// imports.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "symbols/elf/code_image.h"
#include "symbols/elf/elf_file.h"
#include "symbols/elf/unwind_table.h"

namespace proftrace {

class ModuleImage final : public CodeImage {
 public:
  // Which functions get names. kExported leaves out local functions, whose names take most of the
  // time.
  enum class Symbols : uint8_t { kExported, kAll };
  // `file` must outlive the image.
  explicit ModuleImage(ElfFile* file, Symbols symbols = Symbols::kAll);

  ElfFile& file() const { return *file_; }
  bool has_full_symbols() const { return has_full_symbols_; }

  // Returns the range of the function around `address` by the unwind tables, which are right even
  // where a symbol's size is wrong.
  std::optional<FunctionRange> UnwindRangeAt(uint64_t address) const;
  // Returns the address of the record (FDE) that has this range.
  std::optional<uint64_t> UnwindRecordAt(uint64_t address) const;

  size_t ReadCode(uint64_t address, void* buffer, size_t bytes) const override;
  std::string_view CalleeName(uint64_t address) const override;
  std::string_view SlotName(uint64_t address) const override;
  bool IsPltStub(uint64_t address) const override;
  std::optional<FunctionRange> FunctionAt(uint64_t address) const override;

 private:
  struct Function {
    uint64_t start;
    uint64_t size;
    const char* name;
  };
  ElfFile* file_;
  std::vector<Function> functions_;  // ascending by start, one for each start
  bool has_full_symbols_ = false;
  UnwindTable unwind_;
};

}  // namespace proftrace
