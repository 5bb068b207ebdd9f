#include "userspace/wire/capture_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

// Records are small and alike, so that level 1 makes them 4 to 6 times smaller at more than 500
// MB/s.
constexpr int kZstdLevel = 1;
// With less than this there is no room even for the end of a recording.
constexpr uint64_t kLeastReserveBytes = 4096;

}  // namespace

BlockCompressor::BlockCompressor() : zstd_(ZSTD_createCCtx()) {}

BlockCompressor::~BlockCompressor() { ZSTD_freeCCtx(zstd_); }

absl::Status BlockCompressor::Compress(std::span<const std::byte> payload, size_t room,
                                       std::vector<std::byte>* block) {
  if (payload.size() > kMaxBlockBytes) {
    return Fail(ExitCode::kBug, "a capture block of " + std::to_string(payload.size()) + " bytes");
  }
  block->resize(room + ZSTD_compressBound(payload.size()));
  const size_t bytes = ZSTD_compressCCtx(zstd_, block->data() + room, block->size() - room,
                                         payload.data(), payload.size(), kZstdLevel);
  if (ZSTD_isError(bytes)) {
    return Fail(ExitCode::kBug, std::string("zstd: ") + ZSTD_getErrorName(bytes));
  }
  block->resize(room + bytes);
  return absl::OkStatus();
}

CaptureWriter::CaptureWriter(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

CaptureWriter::~CaptureWriter() { close(fd_); }

absl::StatusOr<std::unique_ptr<CaptureWriter>> CaptureWriter::Create(int fd, std::string path) {
  std::unique_ptr<CaptureWriter> writer(new CaptureWriter(fd, std::move(path)));
  CaptureFileHeader header{};
  std::memcpy(header.magic, kCaptureMagic, sizeof(header.magic));
  header.version = kCaptureVersion;
  header.header_bytes = sizeof(header);
  header.checksum = XXH3_64bits(&header, offsetof(CaptureFileHeader, checksum));
  if (absl::Status status = writer->WriteAll(std::as_bytes(std::span(&header, 1))); !status.ok()) {
    return status;
  }
  return writer;
}

absl::Status CaptureWriter::AppendRecords(std::span<const std::byte> records) {
  return records.empty() ? absl::OkStatus() : Append(BlockType::kRecords, records);
}

absl::Status CaptureWriter::AppendDeviceRecords(std::span<const std::byte> records) {
  return records.empty() ? absl::OkStatus() : Append(BlockType::kDeviceRecords, records);
}

absl::Status CaptureWriter::AppendMetadata(const std::vector<std::string>& json_arrays) {
  absl::Status status;
  for (const std::string& array : json_arrays) {
    if (status.ok()) status = Append(BlockType::kMetadata, std::as_bytes(std::span(array)));
  }
  return status;
}

absl::Status CaptureWriter::Append(BlockType type, std::span<const std::byte> payload) {
  absl::Status status = compressor_.Compress(payload, sizeof(BlockHeader), &buffer_);
  return status.ok() ? WriteBlock(type, payload.size()) : status;
}

absl::Status CaptureWriter::AppendCompressed(BlockType type, uint32_t raw_bytes,
                                             std::span<const std::byte> stored) {
  buffer_.resize(sizeof(BlockHeader));
  buffer_.insert(buffer_.end(), stored.begin(), stored.end());
  return WriteBlock(type, raw_bytes);
}

absl::Status CaptureWriter::WriteBlock(BlockType type, size_t raw_bytes) {
  const std::span<const std::byte> stored = std::span(buffer_).subspan(sizeof(BlockHeader));
  BlockHeader header{};
  header.magic = kBlockMagic;
  header.type = static_cast<uint16_t>(type);
  header.compression = static_cast<uint16_t>(BlockCompression::kZstd);
  header.raw_bytes = static_cast<uint32_t>(raw_bytes);
  header.stored_bytes = static_cast<uint32_t>(stored.size());
  header.sequence = sequence_++;
  header.payload_checksum = XXH3_64bits(stored.data(), stored.size());
  header.header_checksum = XXH3_64bits(&header, offsetof(BlockHeader, header_checksum));
  std::memcpy(buffer_.data(), &header, sizeof(header));
  const uint64_t begin = file_bytes_;
  absl::Status status = WriteAll(buffer_);
  if (status.ok()) {
    Reserve();
  } else {
    CutTo(begin);
    --sequence_;
  }
  return status;
}

void CaptureWriter::Reserve() {
  const auto end = static_cast<off_t>(file_bytes_);
  while (reserve_bytes_ >= kLeastReserveBytes) {
    if (fallocate(fd_, FALLOC_FL_KEEP_SIZE, end, static_cast<off_t>(reserve_bytes_)) == 0) {
      has_reserve_ = true;
      return;
    }
    if (errno != ENOSPC && errno != EDQUOT) reserve_bytes_ = 0;  // the file can have no reserve
    if (reserve_bytes_ == 0 || has_reserve_) return;
    reserve_bytes_ /= 4;  // a small disk
  }
}

void CaptureWriter::CutTo(uint64_t bytes) {
  struct stat status {};
  const bool is_longer = fstat(fd_, &status) == 0 && static_cast<uint64_t>(status.st_size) > bytes;
  if (is_longer && ftruncate(fd_, static_cast<off_t>(bytes)) != 0) return;
  if (lseek(fd_, static_cast<off_t>(bytes), SEEK_SET) >= 0) file_bytes_ = bytes;
}

absl::Status CaptureWriter::WriteAll(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd_, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return Fail(ExitCode::kOutputFailed, "cannot write " + path_ + ": " + ErrnoText(errno) +
                                               "; what was recorded before stays readable");
    }
    file_bytes_ += static_cast<uint64_t>(written);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status CaptureWriter::Sync() {
  // EINVAL, EROFS: a pipe or a special file, which cannot be synced and need not be.
  if (fdatasync(fd_) != 0 && errno != EINVAL && errno != EROFS) {
    return Fail(ExitCode::kOutputFailed, "cannot sync " + path_ + ": " + ErrnoText(errno));
  }
  return absl::OkStatus();
}

absl::Status CaptureWriter::Finish() {
  if (absl::Status status = Append(BlockType::kEnd, {}); !status.ok()) return status;
  // Gives the reserved space back to the disk.
  if (has_reserve_ && ftruncate(fd_, static_cast<off_t>(file_bytes_)) != 0 && errno != EINVAL) {
    return Fail(ExitCode::kOutputFailed, "cannot end " + path_ + ": " + ErrnoText(errno));
  }
  return Sync();
}

}  // namespace proftrace
