#include "symbols/process/held_file.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "symbols/process/asked_files.h"
#include "symbols/process/target_entries.h"

namespace proftrace {

std::optional<FileState> StateIn(const struct stat& status) {
  if (!S_ISREG(status.st_mode)) return std::nullopt;
  return FileState{status.st_dev,         status.st_ino,          status.st_size,
                   status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_ctim.tv_sec,
                   status.st_ctim.tv_nsec};
}

std::optional<FileState> StateOfFile(int fd) {
  struct stat status;
  return fstat(fd, &status) == 0 ? StateIn(status) : std::nullopt;
}

std::optional<FileState> StateOfFile(const std::string& proc_path) {
  const std::optional<struct stat> status = StatEntry(proc_path);
  return status ? StateIn(*status) : std::nullopt;
}

std::string LinkOfDescriptor(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

HeldFile::HeldFile(RemoteFile file)
    : fd_(std::move(file.fd)),
      status_(file.status),
      state_(StateIn(file.status).value_or(FileState())),
      mount_(file.mount),
      is_asked_(file.is_asked),
      reader_(std::move(file.reader)) {}

std::shared_ptr<const HeldFile> HeldFile::Hold(UniqueFd fd) {
  RemoteFile file;
  if (fstat(fd.get(), &file.status) != 0) return nullptr;
  file.fd = std::move(fd);
  return Hold(std::move(file));
}

std::shared_ptr<const HeldFile> HeldFile::Hold(RemoteFile file) {
  const bool is_there = file.fd.valid() || file.is_asked;
  if (!is_there || !S_ISREG(file.status.st_mode)) return nullptr;
  return std::shared_ptr<const HeldFile>(new HeldFile(std::move(file)));
}

std::string HeldFile::path() const { return LinkOfDescriptor(fd()); }

size_t HeldFile::ReadAt(uint64_t offset, void* buffer, size_t bytes) const {
  if (offset > static_cast<uint64_t>(INT64_MAX) - bytes) return 0;
  // A worker may have inherited this object; its reader belongs to the process that started the
  // worker, which is asked then.
  if (is_remote() && EntryChannel() != nullptr) return AskToRead(state_, offset, buffer, bytes);
  if (reader_ != nullptr) return reader_->ReadAt(offset, buffer, bytes);
  size_t done = 0;
  while (done < bytes) {
    const ssize_t got = pread(fd(), static_cast<char*>(buffer) + done, bytes - done,
                              static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

bool HeldFile::IsUnchanged() const {
  if (is_remote() && EntryChannel() != nullptr) return AskWhetherUnchanged(state_);
  if (reader_ == nullptr) return StateOfFile(fd()) == state_;
  const std::optional<struct stat> now = reader_->Stat();
  return now.has_value() && StateIn(*now) == state_;
}

}  // namespace proftrace
