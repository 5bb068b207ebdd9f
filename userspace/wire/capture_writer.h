// Appends blocks to a capture file. Every block goes out in one write() of whole bytes: after a
// crash or SIGKILL the file is readable up to its last block. A block that the disk does not take
// is cut off again, and disk space for the end of a recording is kept behind the last block. So
// metadata can still be appended, and Finish() called, when the disk is full, and the file reads
// clean. Not thread-safe.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "userspace/wire/block_sink.h"
#include "userspace/wire/capture_format.h"

struct ZSTD_CCtx_s;

namespace proftrace {

// Compresses the payloads of blocks.
class BlockCompressor {
 public:
  BlockCompressor();
  ~BlockCompressor();
  BlockCompressor(const BlockCompressor&) = delete;
  BlockCompressor& operator=(const BlockCompressor&) = delete;

  // Writes the payload as a file holds it to `block`, behind `room` bytes whose contents do not
  // matter.
  absl::Status Compress(std::span<const std::byte> payload, size_t room,
                        std::vector<std::byte>* block);

 private:
  ZSTD_CCtx_s* zstd_;
};

class CaptureWriter final : public BlockSink {
 public:
  // Makes a writer that owns `fd`, an empty file open for writing. `path` is for messages only.
  // Fails with ExitCode::kOutputFailed, as every call below, when the disk does not take the bytes.
  static absl::StatusOr<std::unique_ptr<CaptureWriter>> Create(int fd, std::string path);
  ~CaptureWriter() override;
  CaptureWriter(const CaptureWriter&) = delete;
  CaptureWriter& operator=(const CaptureWriter&) = delete;

  absl::Status AppendRecords(std::span<const std::byte> records) override;
  absl::Status AppendDeviceRecords(std::span<const std::byte> records) override;
  absl::Status AppendMetadata(const std::vector<std::string>& json_arrays) override;
  // Makes the appended blocks survive a power loss.
  absl::Status Sync() override;
  // Writes the end block and syncs. Nothing may be appended afterwards.
  absl::Status Finish() override;

  // Appends a block whose payload BlockCompressor has made of `raw_bytes` bytes.
  absl::Status AppendCompressed(BlockType type, uint32_t raw_bytes,
                                std::span<const std::byte> stored);

  uint64_t file_bytes() const { return file_bytes_; }

 private:
  CaptureWriter(int fd, std::string path);
  absl::Status Append(BlockType type, std::span<const std::byte> payload);
  // Writes the block in `buffer_`, which has room for the header and the stored payload behind it.
  absl::Status WriteBlock(BlockType type, size_t raw_bytes);
  absl::Status WriteAll(std::span<const std::byte> bytes);
  // Reserves disk space behind the last block, where the file system can.
  void Reserve();
  // Cuts the file off after `bytes` bytes.
  void CutTo(uint64_t bytes);

  int fd_;
  std::string path_;
  BlockCompressor compressor_;
  std::vector<std::byte> buffer_;  // header and stored payload of the block being written
  uint32_t sequence_ = 0;
  uint64_t file_bytes_ = 0;
  uint64_t reserve_bytes_ = uint64_t{1} << 20;  // 0: no space can be reserved
  bool has_reserve_ = false;
};

}  // namespace proftrace
