// The bytes of a capture: of a file, or in memory. A file is read, not mapped: one that becomes
// shorter meanwhile, or that cannot be read, is an error and no signal.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace proftrace {

class CaptureBytes {
 public:
  // Takes over `fd`, a regular file in which `size` bytes from `begin` on are the capture.
  CaptureBytes(int fd, size_t size, uint64_t begin = 0);
  // `bytes` must outlive this.
  explicit CaptureBytes(std::span<const std::byte> bytes);
  ~CaptureBytes();
  CaptureBytes(const CaptureBytes&) = delete;
  CaptureBytes& operator=(const CaptureBytes&) = delete;

  size_t size() const { return size_; }

  // Returns the bytes from `offset` on, which with `bytes` is not behind the end: in `buffer`,
  // which grows, or where they are anyway. From any thread. Fails with ExitCode::kInputDamaged.
  absl::StatusOr<std::span<const std::byte>> Read(size_t offset, size_t bytes,
                                                  std::vector<std::byte>* buffer) const;
  // Finds where `text` is, from `offset` on. What cannot be read is passed over.
  std::optional<size_t> Find(std::string_view text, size_t offset) const;

 private:
  std::span<const std::byte> memory_;  // empty: of a file
  int fd_ = -1;
  size_t size_ = 0;
  uint64_t begin_ = 0;
};

}  // namespace proftrace
