#include "userspace/model/span_store.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

constexpr size_t kChunkBytes = sizeof(Span) * SpanStore::kChunkSpans;

}  // namespace

SpanStore::SpanStore(std::string spill_directory, uint32_t memory_chunks)
    : spill_directory_(spill_directory.empty() ? "/tmp" : std::move(spill_directory)),
      memory_chunks_(memory_chunks) {}

SpanStore::~SpanStore() {
  for (Span* chunk : chunks_) munmap(chunk, kChunkBytes);
  if (spill_fd_ >= 0) close(spill_fd_);
}

absl::Status SpanStore::Append(const Span& span) {
  if (size_ % kChunkSpans == 0) {
    if (absl::Status status = AddChunk(); !status.ok()) return status;
  }
  chunks_.back()[size_ % kChunkSpans] = span;
  ++size_;
  return absl::OkStatus();
}

absl::Status SpanStore::AddChunk() {
  const uint32_t index = chunk_count();
  void* memory = MAP_FAILED;
  if (index < memory_chunks_) {
    memory = mmap(nullptr, kChunkBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  } else {
    if (spill_fd_ < 0) {
      spill_fd_ = open(spill_directory_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    }
    const off_t offset = static_cast<off_t>(kChunkBytes) * (index - memory_chunks_);
    // Room is claimed first: writing to a mapping that the disk cannot hold would be a SIGBUS.
    const int error = spill_fd_ < 0 ? errno : posix_fallocate(spill_fd_, offset, kChunkBytes);
    if (error != 0) {
      return Fail(ExitCode::kOutputFailed, "cannot spill spans to " + spill_directory_ + ": " +
                                               ErrnoText(error) + "; free some space there");
    }
    memory = mmap(nullptr, kChunkBytes, PROT_READ | PROT_WRITE, MAP_SHARED, spill_fd_, offset);
    // A span is written to long after its begin only while it is open: two chunks back is cold.
    if (index >= memory_chunks_ + 2) Release(index - 2);
  }
  if (memory == MAP_FAILED) {
    return Fail(ExitCode::kOutputFailed, "cannot get memory for spans: " + ErrnoText(errno));
  }
  chunks_.push_back(static_cast<Span*>(memory));
  return absl::OkStatus();
}

void SpanStore::Release(uint32_t chunk) const {
  if (chunk < memory_chunks_ || chunk >= chunk_count()) return;
  madvise(chunks_[chunk], kChunkBytes,
          MADV_DONTNEED);  // shared file mapping: contents stay in the file
}

}  // namespace proftrace
