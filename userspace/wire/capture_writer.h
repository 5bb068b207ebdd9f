// Appends blocks to a capture file. Every block goes out in one write() of whole bytes: after a
// crash, SIGKILL or a full disk the file is readable up to its last block. Not thread-safe.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "userspace/wire/capture_format.h"

struct ZSTD_CCtx_s;

namespace proftrace {

class CaptureWriter {
 public:
  // Takes over `fd`, an empty file open for writing. `path` is for messages only.
  // Fails with ExitCode::kOutputFailed, as every call below, when the disk does not take the bytes.
  static absl::StatusOr<std::unique_ptr<CaptureWriter>> Create(int fd, std::string path);
  ~CaptureWriter();
  CaptureWriter(const CaptureWriter&) = delete;
  CaptureWriter& operator=(const CaptureWriter&) = delete;

  // At most kMaxBlockBytes; whole records.
  absl::Status AppendRecords(std::span<const std::byte> records);
  // The same of records of GPU agents.
  absl::Status AppendDeviceRecords(std::span<const std::byte> records);
  // What MetadataWriter::TakeJson() gave, a block each.
  absl::Status AppendMetadata(const std::vector<std::string>& json_arrays);
  // Makes what was appended survive a power loss.
  absl::Status Sync();
  // Writes the end block and syncs. Nothing may be appended afterwards.
  absl::Status Finish();

  uint64_t file_bytes() const { return file_bytes_; }

 private:
  CaptureWriter(int fd, std::string path);
  absl::Status Append(BlockType type, std::span<const std::byte> payload);
  absl::Status WriteAll(std::span<const std::byte> bytes);

  int fd_;
  std::string path_;
  ZSTD_CCtx_s* zstd_;
  std::vector<std::byte> buffer_;  // header and stored payload of the block being written
  uint32_t sequence_ = 0;
  uint64_t file_bytes_ = 0;
};

}  // namespace proftrace
