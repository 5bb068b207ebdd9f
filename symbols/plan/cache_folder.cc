#include "symbols/plan/cache_folder.h"

#include <absl/strings/str_format.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "symbols/process/volume_identity.h"

namespace proftrace {
namespace {

constexpr size_t kHeaderBytes = 8 + 8 + 8 + 8;  // kind, builder, size, checksum
constexpr size_t kMaxEntryBytes = size_t{64} << 20;

std::string EntryName(const EntryFormat& format, std::string_view identity) {
  XXH3_state_t* state = XXH3_createState();
  XXH3_128bits_reset(state);
  XXH3_128bits_update(state, format.kind.data(), format.kind.size());
  XXH3_128bits_update(state, identity.data(), identity.size());
  const XXH128_hash_t hash = XXH3_128bits_digest(state);
  XXH3_freeState(state);
  return absl::StrFormat("%016x%016x.plan", hash.high64, hash.low64);
}

bool IsOursAlone(const struct stat& status) {
  return status.st_uid == geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool ReadFully(int fd, char* buffer, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t got = read(fd, buffer + done, bytes - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += static_cast<size_t>(got);
  }
  return true;
}

}  // namespace

std::string FileIdentity(const HeldFile& file, const std::string& build_id) {
  const FileState& s = file.state();
  const std::string volume = VolumeIdentity(file);
  if (volume.empty()) return "";
  return absl::StrFormat("%s %s %x %x %x %x.%x %x.%x", volume, build_id, s.device, s.inode, s.bytes,
                         s.modified_s, s.modified_ns, s.changed_s, s.changed_ns);
}

std::string SealEntry(const EntryFormat& format, std::string_view content) {
  std::string entry(format.kind.data(), format.kind.size());
  const auto put = [&entry](auto value) {
    entry.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  put(format.builder);
  put(static_cast<uint64_t>(content.size()));
  put(static_cast<uint64_t>(XXH3_64bits(content.data(), content.size())));
  entry.append(content);
  return entry;
}

std::optional<std::string_view> OpenEntry(const EntryFormat& format, std::string_view entry) {
  if (entry.size() < kHeaderBytes ||
      std::memcmp(entry.data(), format.kind.data(), format.kind.size()) != 0) {
    return std::nullopt;
  }
  uint64_t builder;
  uint64_t size;
  uint64_t checksum;
  std::memcpy(&builder, entry.data() + 8, sizeof(builder));
  std::memcpy(&size, entry.data() + 16, sizeof(size));
  std::memcpy(&checksum, entry.data() + 24, sizeof(checksum));
  const std::string_view content = entry.substr(kHeaderBytes);
  if (builder != format.builder || size != content.size() ||
      checksum != XXH3_64bits(content.data(), content.size())) {
    return std::nullopt;
  }
  return content;
}

CacheFolder::CacheFolder(const std::string& directory, std::array<char, 8> kind,
                         std::string_view builder, uint64_t most_bytes)
    : format_{kind, XXH3_64bits(builder.data(), builder.size())}, most_bytes_(most_bytes) {
  if (directory.empty() || builder.empty()) return;
  absl::StatusOr<GuardedFolder> folder = GuardedFolder::OpenOrMake(directory);
  struct stat status;
  if (folder.ok() && fstat(folder->fd(), &status) == 0 && IsOursAlone(status)) {
    folder_ = *std::move(folder);
  }
}

std::optional<std::string> CacheFolder::Load(std::string_view identity) const {
  if (!usable() || identity.empty()) return std::nullopt;
  const UniqueFd fd(openat(folder_->fd(), EntryName(format_, identity).c_str(),
                           O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  struct stat status;
  if (!fd.valid() || fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      !IsOursAlone(status) || status.st_size <= 0 ||
      static_cast<uint64_t>(status.st_size) > kMaxEntryBytes) {
    return std::nullopt;
  }
  std::string entry(static_cast<size_t>(status.st_size), '\0');
  if (!ReadFully(fd.get(), entry.data(), entry.size())) return std::nullopt;
  const auto content = OpenEntry(format_, entry);
  if (!content) return std::nullopt;
  return std::string(*content);
}

void CacheFolder::Store(std::string_view identity, std::string_view content) const {
  if (!usable() || identity.empty()) return;
  const std::string entry = SealEntry(format_, content);
  const std::string name = EntryName(format_, identity);
  if (entry.size() > kMaxEntryBytes) return;
  // The PID alone would not be a unique name: processes in other PID namespaces may have the same
  // one, and threads of this process share it.
  uint64_t random = 0;
  if (getrandom(&random, sizeof(random), 0) != sizeof(random)) return;
  const std::string temporary = absl::StrFormat("%s.%016x.tmp", name, random);
  const UniqueFd fd(openat(folder_->fd(), temporary.c_str(),
                           O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.valid()) return;
  if (!WriteFully(fd.get(), entry) ||
      renameat(folder_->fd(), temporary.c_str(), folder_->fd(), name.c_str()) != 0) {
    unlinkat(folder_->fd(), temporary.c_str(), 0);
    return;
  }
  RemoveOldest(name);
}

void CacheFolder::RemoveOldest(const std::string& kept) const {
  struct Entry {
    timespec time;
    uint64_t bytes;
    std::string name;
  };
  std::vector<Entry> entries;
  uint64_t bytes = 0;
  // The folder is opened anew, because its descriptor has one reading position for the whole
  // process.
  const int listed = openat(folder_->fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(listed < 0 ? nullptr : fdopendir(listed),
                                                   closedir);
  if (folder == nullptr) {
    if (listed >= 0) close(listed);
    return;
  }
  while (const dirent* entry = readdir(folder.get())) {
    const std::string name = entry->d_name;
    struct stat status;
    // Temporary files are removed too, because a run that was killed leaves some.
    if (!name.ends_with(".plan") && !name.ends_with(".tmp")) continue;
    if (fstatat(folder_->fd(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (!S_ISREG(status.st_mode) || status.st_uid != geteuid()) continue;
    bytes += static_cast<uint64_t>(status.st_size);
    if (name != kept) {
      entries.push_back({status.st_mtim, static_cast<uint64_t>(status.st_size), name});
    }
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tuple(a.time.tv_sec, a.time.tv_nsec, std::string_view(a.name)) <
           std::tuple(b.time.tv_sec, b.time.tv_nsec, std::string_view(b.name));
  });
  for (const Entry& entry : entries) {
    if (bytes <= most_bytes_) break;
    if (unlinkat(folder_->fd(), entry.name.c_str(), 0) == 0) bytes -= entry.bytes;
  }
}

}  // namespace proftrace
