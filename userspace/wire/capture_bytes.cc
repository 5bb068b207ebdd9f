#include "userspace/wire/capture_bytes.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

constexpr size_t kSearchBytes = 256u << 10;
// An unreadable sector makes its whole page unreadable, so the bytes before the page are read in
// small steps.
constexpr size_t kUnreadableBytes = 4096;
constexpr size_t kCarefulSearchBytes = 512;

}  // namespace

CaptureBytes::CaptureBytes(int fd, size_t size, uint64_t begin)
    : fd_(fd), size_(size), begin_(begin) {}

CaptureBytes::CaptureBytes(std::span<const std::byte> bytes)
    : memory_(bytes), size_(bytes.size()) {}

CaptureBytes::~CaptureBytes() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<std::span<const std::byte>> CaptureBytes::Read(
    size_t offset, size_t bytes, std::vector<std::byte>* buffer) const {
  if (fd_ < 0) return memory_.subspan(offset, bytes);
  if (buffer->size() < bytes) buffer->resize(bytes);
  size_t read = 0;
  while (read < bytes) {
    const ssize_t count =
        pread(fd_, buffer->data() + read, bytes - read, static_cast<off_t>(begin_ + offset + read));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return Fail(ExitCode::kInputDamaged,
                  "byte " + std::to_string(offset + read) + " cannot be read: " + ErrnoText(errno));
    }
    if (count == 0) {
      return Fail(
          ExitCode::kInputDamaged,
          "it became shorter while it was read, and ends at byte " + std::to_string(offset + read));
    }
    read += static_cast<size_t>(count);
  }
  return std::span<const std::byte>(buffer->data(), bytes);
}

std::optional<size_t> CaptureBytes::Find(std::string_view text, size_t offset) const {
  std::vector<std::byte> buffer;
  size_t most_bytes = fd_ < 0 ? size_ : kSearchBytes;
  while (offset < size_ && size_ - offset >= text.size()) {
    const size_t bytes = std::min(most_bytes, size_ - offset);
    const auto part = Read(offset, bytes, &buffer);
    if (!part.ok() && most_bytes > kCarefulSearchBytes) {
      most_bytes = kCarefulSearchBytes;
      continue;
    }
    if (!part.ok()) {
      offset += kUnreadableBytes - offset % kUnreadableBytes;
      continue;
    }
    const void* found = memmem(part->data(), part->size(), text.data(), text.size());
    if (found != nullptr) {
      return offset + static_cast<size_t>(static_cast<const std::byte*>(found) - part->data());
    }
    offset += bytes - (text.size() - 1);
  }
  return std::nullopt;
}

}  // namespace proftrace
