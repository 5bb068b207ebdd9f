// A folder of small files that hold what was found out about libraries, with a checksum each.
//
// An entry belongs to one build of this program, whose analysis it is: two builds that share a
// folder make an entry each. It also belongs to one file on this machine: its name and content hold
// the build-id, device, inode, size, both times (the change time cannot be set by its owner) and
// what tells its file system from others that had the same device number (volume_identity.h). The
// build-id alone would not do: a hostile process could map a file of its own with torch's build-id,
// and its sites would be put into other people's jobs. Entries are read only from a directory and
// files that nobody but our own user can write.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "symbols/plan/program_identity.h"
#include "symbols/process/held_file.h"
#include "userspace/base/guarded_folder.h"

namespace proftrace {

// What an entry must begin with: others are not opened.
struct EntryFormat {
  std::array<char, 8> kind{};
  // Identifies the program that made the entry (program_identity.h).
  uint64_t builder = 0;
};

// Returns an entry: header and checksum, then `content`.
std::string SealEntry(const EntryFormat& format, std::string_view content);
// Returns the content of an entry; nullopt: a check fails.
std::optional<std::string_view> OpenEntry(const EntryFormat& format, std::string_view entry);

// Returns what tells the file from every other one. Empty: nothing does, and nothing is kept of it.
std::string FileIdentity(const HeldFile& file, const std::string& build_id);

class CacheFolder {
 public:
  // Each build of proftrace and each torch leaves entries of some megabytes.
  static constexpr uint64_t kMostBytes = uint64_t{256} << 20;

  // Empty `directory` or `builder`: no cache. Makes the directory (mode 0700) when it is missing.
  // When its entries, whoever made them, take more than `most_bytes`, the oldest ones are removed.
  CacheFolder(const std::string& directory, std::array<char, 8> kind,
              std::string_view builder = ProgramIdentity(), uint64_t most_bytes = kMostBytes);

  bool usable() const { return folder_.has_value(); }
  // Returns the content of the entry of `identity` (any text; empty: there is none). The content
  // should hold the identity again, as names of entries are hashes. nullopt: there is no entry, or
  // none that passes every check.
  std::optional<std::string> Load(std::string_view identity) const;
  // Writes a temporary file, then renames it. A failure only costs the next run its time.
  void Store(std::string_view identity, std::string_view content) const;

 private:
  void RemoveOldest(const std::string& kept) const;

  EntryFormat format_;
  uint64_t most_bytes_;
  std::optional<GuardedFolder> folder_;
};

}  // namespace proftrace
