// The bytes of a capture, in a file or in memory. A file is read and not mapped, so that a file
// that becomes shorter meanwhile, or cannot be read, gives an error instead of a signal.
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

  // Returns `bytes` bytes from `offset` on; offset + bytes must not be beyond the end. They lie in
  // `buffer`, which is enlarged if needed, or in the memory of the capture itself. May be called
  // from any thread. Fails with ExitCode::kInputDamaged.
  absl::StatusOr<std::span<const std::byte>> Read(size_t offset, size_t bytes,
                                                  std::vector<std::byte>* buffer) const;
  // Returns where `text` occurs first, from `offset` on; nullopt: nowhere. Parts that cannot be
  // read are skipped.
  std::optional<size_t> Find(std::string_view text, size_t offset) const;

 private:
  std::span<const std::byte> memory_;  // empty where the capture is a file
  int fd_ = -1;
  size_t size_ = 0;
  uint64_t begin_ = 0;
};

}  // namespace proftrace
