// The static half of probe plans, kept on disk: one small file for each analysed library.
//
// An entry belongs to one file on this machine: its name and content hold the build-id, device,
// inode, size and both times (the change time cannot be set by its owner). The build-id alone would
// not do: a hostile process could map a file of its own with torch's build-id, and its sites would
// be put into other people's jobs. Entries are read only from a directory and files that nobody but
// our own user can write.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "symbols/elf_file.h"
#include "symbols/module_analysis.h"

namespace proftrace {

class PlanCache {
 public:
  // Empty `directory`: no cache. It is made (mode 0700) when it is missing.
  explicit PlanCache(const std::string& directory);

  bool usable() const { return directory_.valid(); }
  // Nothing where there is no entry, or none that passes every check.
  std::optional<ModuleFacts> Load(const ElfFile& file) const;
  // Written to a temporary file, then renamed. A failure only costs the next run its time.
  void Store(const ElfFile& file, const ModuleFacts& facts) const;

 private:
  UniqueFd directory_;
};

// The content of an entry, without header and checksum. `file_bytes`: the library's size; every
// offset must lie inside.
std::string EncodeFacts(std::string_view identity, const ModuleFacts& facts);
std::optional<ModuleFacts> DecodeFacts(std::string_view bytes, std::string_view identity,
                                       uint64_t file_bytes);
// With header and checksum.
std::string SealEntry(std::string_view content);
std::optional<std::string_view> OpenEntry(std::string_view entry);

}  // namespace proftrace
