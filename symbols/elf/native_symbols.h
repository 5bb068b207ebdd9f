// Keeps the files that processes have mapped, for native frames: gives names of functions by their
// addresses, and the files by which libdw unwinds. Each file is opened once, however many processes
// have it. An object is for one thread.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <libelf.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "symbols/elf/elf_file.h"
#include "symbols/process/process_maps.h"
#include "symbols/process/process_memory.h"

namespace proftrace {

class NativeSymbols {
 public:
  // Returns the function at `address` of a process that has `mapped`: demangled, without
  // parameters. Empty: no symbol covers it.
  std::string NameAt(Pid pid, const MappedFile& mapped, uint64_t address);
  // Returns where the file is loaded, without mappings of it as data.
  MemoryRange LoadedRange(Pid pid, const MappedFile& mapped);
  // Returns a reference to the file for libelf, which the caller must end. Null: the file cannot be
  // read. The file is never mapped, so that cutting it off while it is read gives an error instead
  // of a signal.
  Elf* ElfOf(Pid pid, const MappedFile& mapped);

 private:
  struct Symbol {
    uint64_t address = 0;
    uint64_t size = 0;
    const char* text = "";  // lives as long as the file
  };
  struct ElfDeleter {
    void operator()(Elf* elf) const { elf_end(elf); }
  };
  struct File {
    std::shared_ptr<const HeldFile> held;  // outlives `raw`
    std::unique_ptr<Elf, ElfDeleter> raw;
    std::unique_ptr<ElfFile> elf;  // null: it could not be read
    bool was_opened = false;       // opening it was tried
    bool has_symbols = false;      // the symbols were loaded, if there are any
    std::vector<Symbol> symbols;   // functions, ascending
  };

  File& FileOf(const MappedFile& mapped);
  static void OpenElf(Pid pid, const MappedFile& mapped, File* file);
  static void LoadSymbols(Pid pid, const MappedFile& mapped, File* file);

  absl::flat_hash_map<std::pair<uint64_t, uint64_t>, std::unique_ptr<File>>
      files_;                // device, inode
  uint64_t kept_bytes_ = 0;  // the memory that all symbols and their names take
};

// Returns "at::mm" for "at::mm(at::Tensor const&, at::Tensor const&)": the name without the last
// parameter list and the text behind that.
std::string WithoutParameters(const std::string& name);

}  // namespace proftrace
