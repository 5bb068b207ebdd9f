// A folder of small files with facts about libraries, the entries of a cache. Each has a checksum.
//
// An entry belongs to the build of this program that made it: two builds that share a folder make
// an entry each. It also belongs to one file on this machine: its name and content hold the file's
// build-id, device, inode, size, both times (a file's owner cannot set the change time) and the
// identity of the file system, which tells it from others that had the same device number
// (volume_identity.h). The build-id alone would not be enough: a hostile process could map a file
// of its own with torch's build-id, and the sites found in that file would be probed in other
// people's jobs. Entries are read only from a directory and files that nobody but our own user can
// write.
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

// The begin of an entry. OpenEntry() refuses an entry with another one.
struct EntryFormat {
  std::array<char, 8> kind{};
  // Identifies the program that made the entry (program_identity.h).
  uint64_t builder = 0;
};

// Returns an entry: header and checksum, then `content`.
std::string SealEntry(const EntryFormat& format, std::string_view content);
// Returns the content of an entry; nullopt: a check fails.
std::optional<std::string_view> OpenEntry(const EntryFormat& format, std::string_view entry);

// Returns a text that tells the file from every other one. Empty: there is no such text, so that
// nothing may be kept about the file.
std::string FileIdentity(const HeldFile& file, const std::string& build_id);

class CacheFolder {
 public:
  // The limit of a folder. Each build of proftrace leaves entries of some megabytes for each torch.
  static constexpr uint64_t kMostBytes = uint64_t{256} << 20;

  // Makes the directory (mode 0700) where it is missing. Where `directory` or `builder` is empty,
  // there is no cache. When the entries take more than `most_bytes`, those of other builds
  // included, the oldest ones are removed.
  CacheFolder(const std::string& directory, std::array<char, 8> kind,
              std::string_view builder = ProgramIdentity(), uint64_t most_bytes = kMostBytes);

  bool usable() const { return folder_.has_value(); }
  // Returns the content of the entry of `identity`, which may be any text. The content should hold
  // the identity again, because names of entries are hashes. nullopt: there is no entry, the entry
  // fails a check, or `identity` is empty.
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
