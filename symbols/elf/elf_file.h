// One ELF file of a target: where its bytes are, and its symbols. x86-64, little endian.
//
// The file belongs to a process that may be hostile and may change it while we read: everything is
// read at its offset (a truncated mapping would be SIGBUS), every offset and size is checked, sizes
// are limited before memory is allocated, and there is a budget for all that is read of one file.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>
#include <elf.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "symbols/elf/code_image.h"
#include "symbols/elf/elf_segments.h"
#include "symbols/process/held_file.h"
#include "symbols/process/process_maps.h"
#include "symbols/process/read_budget.h"

namespace proftrace {

struct ElfSection {
  std::string name;
  uint64_t address = 0;
  uint64_t file_offset = 0;
  uint64_t size = 0;
  uint32_t type = 0;
  uint64_t flags = 0;
  uint32_t link = 0;
};

struct ElfSymbol {
  const char* text = "";  // the name; ends with NUL, lives as long as the ElfFile
  uint64_t address = 0;
  uint64_t size = 0;
  bool is_function = false;
  bool is_defined = false;

  std::string_view name() const { return text; }
};

class ElfFile {
 public:
  // Fails for anything but a little-endian x86-64 ELF file with section headers; the message says
  // why.
  static absl::StatusOr<std::unique_ptr<ElfFile>> Open(std::shared_ptr<const HeldFile> file);
  static absl::StatusOr<std::unique_ptr<ElfFile>> Open(UniqueFd fd);
  // Whether the file's head is bounded for other libraries, too: they take memory for each section
  // that it says it has.
  static bool HasBoundedHead(const HeldFile& file);

  const std::vector<ElfSection>& sections() const { return sections_; }
  const ElfSection* FindSection(std::string_view name) const;
  const std::string& build_id() const { return build_id_; }  // hex; may be empty
  const struct stat& status() const { return held_->status(); }
  const HeldFile& held() const { return *held_; }
  // Whether the file's budget is used up: then it is not known what is missing. WhyCut() says why.
  bool is_cut() const { return budget_.is_used_up(); }
  std::string WhyCut() const { return budget_.Why(); }
  // How much memory its tables take.
  uint64_t kept_bytes() const { return budget_.kept_bytes(); }

  // The segments that are loaded and have bytes in the file.
  const std::vector<Elf64_Phdr>& segments() const { return segments_; }
  std::optional<uint64_t> FileOffset(uint64_t address) const {
    return FileOffsetIn(segments_, address);
  }
  std::optional<uint64_t> AddressOfOffset(uint64_t file_offset) const {
    return AddressOfOffsetIn(segments_, file_offset);
  }

  // Reads up to `bytes` at a virtual address / file offset; returns how many.
  size_t ReadAddress(uint64_t address, void* buffer, size_t bytes) const;
  size_t ReadOffset(uint64_t offset, void* buffer, size_t bytes) const;

  // Returns the sections whose code a scan goes through, of at most kMostScannedBytes: a sparse
  // file may claim more than anybody can read. `left_out` (may be null): how many were too large.
  static constexpr uint64_t kMostScannedBytes = uint64_t{1} << 30;
  std::vector<const ElfSection*> CodeSections(size_t* left_out) const;

  // Returns the bytes of a section; empty: it is larger than 256 MiB or lies outside the file.
  std::vector<uint8_t> ReadSection(const ElfSection& section) const;

  // Calls `visit` for each symbol of .dynsym (`full` = false) or .symtab, in file order. The tables
  // are read once and kept.
  void ForEachSymbol(bool full, const std::function<void(const ElfSymbol&)>& visit);
  // Empties .symtab for good. The names stay: 13 MB of 93 in a libtorch are given back.
  void ForgetFullSymbols();

  // Map the entry address of a PLT stub, and the address of a GOT slot, to the imported name.
  const absl::flat_hash_map<uint64_t, std::string_view>& PltNames();
  const absl::flat_hash_map<uint64_t, std::string_view>& SlotNames();

 private:
  // A buffer that is not zeroed before it is read into: string tables have 100 MB.
  struct Table {
    bool loaded = false;
    std::unique_ptr<uint8_t[]> symbols;
    size_t count = 0;
    std::unique_ptr<char[]> strings;
    size_t string_bytes = 0;
  };

  explicit ElfFile(std::shared_ptr<const HeldFile> held);
  absl::Status ReadHeaders();
  void ReadBuildId();
  const Table& LoadTable(bool full);
  bool HoldsSection(const ElfSection& section) const;
  std::unique_ptr<uint8_t[]> ReadRaw(const ElfSection& section, size_t extra_bytes);
  void ReadSections(uint64_t offset, uint64_t count, uint64_t names);
  ElfSymbol SymbolAt(const Table& table, size_t index) const;
  void LoadImports();

  std::shared_ptr<const HeldFile> held_;
  mutable ReadBudget budget_;
  std::vector<Elf64_Phdr> segments_;
  std::vector<ElfSection> sections_;
  std::string build_id_;
  Table dynamic_table_;
  Table full_table_;
  bool imports_loaded_ = false;
  absl::flat_hash_map<uint64_t, std::string_view> plt_names_;
  absl::flat_hash_map<uint64_t, std::string_view> slot_names_;
};

// As for the file's segments.
inline std::optional<LoadedPlace> FindLoadedPlace(const ElfFile& file, const MappedFile& mapped) {
  return FindLoadedPlace(file.segments(), mapped);
}
inline std::optional<uint64_t> LoadBias(const ElfFile& file, const MappedFile& mapped) {
  return LoadBias(file.segments(), mapped);
}

}  // namespace proftrace
