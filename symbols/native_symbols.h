// Names of functions by their address: the symbol tables of the files that are mapped.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "symbols/elf_file.h"
#include "symbols/process_maps.h"

namespace proftrace {

class NativeSymbols {
 public:
  // The function at `address` of a process that has `mapped`: demangled, without parameters. Empty
  // where no symbol covers it.
  std::string NameAt(Pid pid, const MappedFile& mapped, uint64_t address);

 private:
  struct Symbol {
    uint64_t address = 0;
    uint64_t size = 0;
    const char* text = "";  // lives as long as the file
  };
  struct File {
    std::unique_ptr<ElfFile> elf;  // none: it could not be read
    std::vector<Symbol> symbols;   // functions, ascending
  };

  File Load(Pid pid, const MappedFile& mapped) const;

  absl::flat_hash_map<std::pair<uint64_t, uint64_t>, std::unique_ptr<File>>
      files_;  // device, inode
};

}  // namespace proftrace
