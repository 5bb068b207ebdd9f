// Reads one ELF file of a target: its sections, segments and symbols. x86-64, little endian.
//
// The file belongs to a process that may be hostile and may change it while we read. So the file is
// read by its offsets instead of being mapped (a truncated mapping gives SIGBUS), every offset and
// size is checked, sizes are limited before memory is allocated, and a budget limits everything
// that is read of one file.
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
  // Whether the file's head has plausible numbers of sections and segments. Other libraries
  // allocate memory for each section that the head claims.
  static bool HasBoundedHead(const HeldFile& file);

  const std::vector<ElfSection>& sections() const { return sections_; }
  const ElfSection* FindSection(std::string_view name) const;
  const std::string& build_id() const { return build_id_; }  // hex; may be empty
  const struct stat& status() const { return held_->status(); }
  const HeldFile& held() const { return *held_; }
  // Whether the file's budget is used up, so that an unknown part of the file was not read.
  // WhyCut() returns the reason.
  bool is_cut() const { return budget_.is_used_up(); }
  std::string WhyCut() const { return budget_.Why(); }
  // Returns how much memory the file's tables take.
  uint64_t kept_bytes() const { return budget_.kept_bytes(); }

  // Returns the segments that are loaded and have bytes in the file.
  const std::vector<Elf64_Phdr>& segments() const { return segments_; }
  std::optional<uint64_t> FileOffset(uint64_t address) const {
    return FileOffsetIn(segments_, address);
  }
  std::optional<uint64_t> AddressOfOffset(uint64_t file_offset) const {
    return AddressOfOffsetIn(segments_, file_offset);
  }

  // Read up to `bytes` at a virtual address or a file offset; return how many were read.
  size_t ReadAddress(uint64_t address, void* buffer, size_t bytes) const;
  size_t ReadOffset(uint64_t offset, void* buffer, size_t bytes) const;

  // Returns the sections whose code a scan reads, with at most kMostScannedBytes together, because
  // a sparse file may claim more than anybody can read. `left_out` (may be null): how many sections
  // were left out as too large.
  static constexpr uint64_t kMostScannedBytes = uint64_t{1} << 30;
  std::vector<const ElfSection*> CodeSections(size_t* left_out) const;

  // Returns the bytes of a section; empty: the section is larger than 256 MiB or lies outside of
  // the file.
  std::vector<uint8_t> ReadSection(const ElfSection& section) const;

  // Calls `visit` for each symbol of .dynsym (`full` = false) or .symtab, in file order. The tables
  // are read once and kept.
  void ForEachSymbol(bool full, const std::function<void(const ElfSymbol&)>& visit);
  // Frees the symbols of .symtab for good, but keeps the names, to which callers may point: for a
  // libtorch, 13 of 93 MB are freed.
  void ForgetFullSymbols();

  // Return the imported names by the addresses of their PLT stubs and of their GOT slots.
  const absl::flat_hash_map<uint64_t, std::string_view>& PltNames();
  const absl::flat_hash_map<uint64_t, std::string_view>& SlotNames();

 private:
  // A symbol table with its names. The buffers are not zeroed before the file is read into them,
  // because string tables have 100 MB.
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

// Do the same as the functions of elf_segments.h, with the file's segments.
inline std::optional<LoadedPlace> FindLoadedPlace(const ElfFile& file, const MappedFile& mapped) {
  return FindLoadedPlace(file.segments(), mapped);
}
inline std::optional<uint64_t> LoadBias(const ElfFile& file, const MappedFile& mapped) {
  return LoadBias(file.segments(), mapped);
}

}  // namespace proftrace
