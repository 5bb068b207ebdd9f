#include "userspace/model/chunk_store.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "userspace/base/exit_status.h"
#include "userspace/model/spill_file.h"

namespace proftrace {

ChunkMemory::ChunkMemory(std::string spill_directory, size_t chunk_bytes, uint32_t memory_chunks)
    : spill_directory_(std::move(spill_directory)),
      chunk_bytes_(chunk_bytes),
      memory_chunks_(memory_chunks) {}

ChunkMemory::~ChunkMemory() {
  for (std::byte* chunk : chunks_) munmap(chunk, chunk_bytes_);
  if (spill_fd_ >= 0) close(spill_fd_);
}

absl::Status ChunkMemory::Add() {
  const uint32_t index = count();
  void* memory = MAP_FAILED;
  if (index < memory_chunks_) {
    memory =
        mmap(nullptr, chunk_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  } else {
    if (spill_fd_ < 0) {
      absl::StatusOr<SpillFile> file = OpenSpillFile(spill_directory_);
      if (!file.ok()) return file.status();
      spill_fd_ = file->fd;
      spill_directory_ = std::move(file->directory);
    }
    const off_t offset = static_cast<off_t>(chunk_bytes_) * (index - memory_chunks_);
    // Disk space is claimed first, because writing to a mapping that the disk cannot hold would
    // raise SIGBUS.
    const int error = posix_fallocate(spill_fd_, offset, static_cast<off_t>(chunk_bytes_));
    if (error != 0) return CannotSpill(spill_directory_, error);
    memory = mmap(nullptr, chunk_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, spill_fd_, offset);
    // An item is written to long after it was added only while its span is open, so a chunk that is
    // two chunks back is rarely used.
    if (index >= memory_chunks_ + 2) Release(index - 2);
  }
  if (memory == MAP_FAILED) {
    return Fail(ExitCode::kOutputFailed, "cannot get memory for events: " + ErrnoText(errno));
  }
  chunks_.push_back(static_cast<std::byte*>(memory));
  return absl::OkStatus();
}

void ChunkMemory::Release(uint32_t index) const {
  if (index < memory_chunks_ || index >= count()) return;
  madvise(chunks_[index], chunk_bytes_,
          MADV_DONTNEED);  // shared file mapping: contents stay in the file
}

}  // namespace proftrace
