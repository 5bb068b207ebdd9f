#include "userspace/wire/capture_reader.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

// Pages of the mapping that were read are given back in steps of this size.
constexpr size_t kReleaseBytes = 8u << 20;
// Payloads of blocks do not overlap: in a file that was only damaged those that are not sound have
// no more bytes than the file. One that was made to be slow has them again and again.
constexpr uint64_t kMostWasted = 4;

absl::Status Damaged(const std::string& path, const std::string& what) {
  return Fail(ExitCode::kInputDamaged,
              path + " is damaged: " + what + "; 'proftrace report --salvage' shows what is whole");
}

}  // namespace

CaptureReader::~CaptureReader() {
  if (mapping_ != nullptr) munmap(mapping_, bytes_.size());
}

absl::StatusOr<std::unique_ptr<CaptureReader>> CaptureReader::Open(const std::string& path,
                                                                   const Options& options) {
  std::string file = path;
  struct stat info {};
  if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) file = path + "/capture.ptrec";
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 || fstat(fd, &info) != 0) {
    const int error = errno;
    if (fd >= 0) close(fd);
    return Fail(ExitCode::kInputDamaged, "cannot open the capture " + file + ": " +
                                             ErrnoText(error) +
                                             "; give a result directory or a "
                                             ".ptrec file");
  }
  std::unique_ptr<CaptureReader> reader(new CaptureReader);
  reader->path_ = file;
  const size_t size = static_cast<size_t>(info.st_size);
  if (!S_ISREG(info.st_mode) || size < sizeof(CaptureFileHeader)) {
    close(fd);
    return Fail(ExitCode::kInputDamaged, file + " is not a proftrace capture");
  }
  void* mapping = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  const int error = errno;
  close(fd);
  if (mapping == MAP_FAILED) {
    return Fail(ExitCode::kInputDamaged, "cannot read " + file + ": " + ErrnoText(error));
  }
  reader->mapping_ = mapping;
  reader->bytes_ = std::span(static_cast<const std::byte*>(mapping), size);
  if (absl::Status status = reader->Index(options); !status.ok()) return status;
  return reader;
}

absl::StatusOr<std::unique_ptr<CaptureReader>> CaptureReader::FromBytes(
    std::span<const std::byte> bytes, const Options& options) {
  std::unique_ptr<CaptureReader> reader(new CaptureReader);
  reader->path_ = "capture";
  reader->bytes_ = bytes;
  if (absl::Status status = reader->Index(options); !status.ok()) return status;
  return reader;
}

absl::Status CaptureReader::CheckFileHeader() const {
  CaptureFileHeader header;
  if (bytes_.size() < sizeof(header)) {
    return Fail(ExitCode::kInputDamaged, path_ + " is not a proftrace capture");
  }
  std::memcpy(&header, bytes_.data(), sizeof(header));
  if (std::memcmp(header.magic, kCaptureMagic, sizeof(header.magic)) != 0) {
    return Fail(ExitCode::kInputDamaged, path_ + " is not a proftrace capture");
  }
  if (header.version > kCaptureVersion) {
    return Fail(ExitCode::kInputDamaged, path_ + " was written by a newer proftrace (format " +
                                             std::to_string(header.version) +
                                             "); use that version to read it");
  }
  if (header.header_bytes != sizeof(header) ||
      header.checksum != XXH3_64bits(&header, offsetof(CaptureFileHeader, checksum))) {
    return Damaged(path_, "its header is wrong");
  }
  return absl::OkStatus();
}

bool CaptureReader::ReadBlockHeader(size_t offset, BlockHeader* header,
                                    uint64_t* wasted_bytes) const {
  if (bytes_.size() - offset < sizeof(*header)) return false;
  std::memcpy(header, bytes_.data() + offset, sizeof(*header));
  const bool is_whole =
      header->magic == kBlockMagic &&
      header->header_checksum == XXH3_64bits(header, offsetof(BlockHeader, header_checksum)) &&
      header->raw_bytes <= kMaxBlockBytes &&
      header->stored_bytes <= ZSTD_compressBound(kMaxBlockBytes) &&
      header->stored_bytes <= bytes_.size() - offset - sizeof(*header);
  if (!is_whole) return false;
  const bool is_sound = header->payload_checksum ==
                        XXH3_64bits(bytes_.data() + offset + sizeof(*header), header->stored_bytes);
  if (!is_sound) *wasted_bytes += header->stored_bytes;
  return is_sound;
}

absl::Status CaptureReader::Index(const Options& options) {
  salvage_ = options.salvage;
  if (absl::Status status = CheckFileHeader(); !status.ok()) return status;
  size_t offset = sizeof(CaptureFileHeader);
  uint32_t expected_sequence = 0;
  bool ended = false;
  bool gap = false;         // since the last block of records
  bool device_gap = false;  // since the last block of device records
  uint64_t wasted_bytes = 0;
  while (offset < bytes_.size() && !ended) {
    BlockHeader header;
    if (!ReadBlockHeader(offset, &header, &wasted_bytes)) {
      if (damage_.empty()) damage_ = "no whole block at byte " + std::to_string(offset);
      if (!salvage_) return Damaged(path_, damage_);
      gap = device_gap = true;
      if (wasted_bytes > kMostWasted * bytes_.size()) {
        damage_ +=
            "; too many damaged blocks, none was looked for after byte " + std::to_string(offset);
        break;
      }
      ++offset;  // look for the next sound block
      static constexpr char kFirst = 'P';
      const void* found = std::memchr(bytes_.data() + offset, kFirst, bytes_.size() - offset);
      offset = found == nullptr
                   ? bytes_.size()
                   : static_cast<size_t>(static_cast<const std::byte*>(found) - bytes_.data());
      continue;
    }
    // Which kind of block is missing cannot be told.
    gap = gap || header.sequence != expected_sequence;
    device_gap = device_gap || header.sequence != expected_sequence;
    expected_sequence = header.sequence + 1;
    Block block{header, offset + sizeof(header), gap};
    offset = block.payload_offset + header.stored_bytes;
    ReleaseUpTo(offset);
    switch (static_cast<BlockType>(header.type)) {
      case BlockType::kRecords:
        record_blocks_.push_back(block);
        gap = false;
        break;
      case BlockType::kDeviceRecords:
        block.gap_before = device_gap;
        device_blocks_.push_back(block);
        device_gap = false;
        break;
      case BlockType::kMetadata: {
        absl::StatusOr<std::span<const std::byte>> payload = Payload(block, &payload_);
        if (!payload.ok()) return payload.status();
        const std::string_view text(reinterpret_cast<const char*>(payload->data()),
                                    payload->size());
        if (options.keep_metadata_text) metadata_text_.emplace_back(text);
        if (absl::Status status = metadata_.Merge(text); !status.ok()) {
          if (damage_.empty()) damage_ = std::string(status.message());
          if (!salvage_) return Damaged(path_, damage_);
        }
        break;
      }
      case BlockType::kEnd:
        ended = true;
        break;
      default:  // written by a newer version: skipped by its size
        break;
    }
  }
  if (!ended && damage_.empty()) damage_ = "it was not closed properly, the end is missing";
  if (!damage_.empty() && !salvage_) return Damaged(path_, damage_);
  gap_pending_ = gap;
  device_gap_pending_ = device_gap;
  released_bytes_ = 0;
  return absl::OkStatus();
}

absl::StatusOr<std::span<const std::byte>> CaptureReader::Payload(
    const Block& block, std::vector<std::byte>* buffer) const {
  const std::span<const std::byte> stored =
      bytes_.subspan(block.payload_offset, block.header.stored_bytes);
  if (block.header.compression == static_cast<uint16_t>(BlockCompression::kNone)) return stored;
  buffer->resize(block.header.raw_bytes);
  const size_t bytes =
      ZSTD_decompress(buffer->data(), buffer->size(), stored.data(), stored.size());
  if (ZSTD_isError(bytes) || bytes != block.header.raw_bytes) {
    return Damaged(path_, "a block does not decompress");
  }
  return std::span<const std::byte>(*buffer);
}

absl::StatusOr<RecordBatch> CaptureReader::Next() {
  RecordBatch batch;
  if (next_block_ == record_blocks_.size()) {
    batch.end = true;
    batch.gap_before = std::exchange(gap_pending_, false);
    return batch;
  }
  const Block& block = record_blocks_[next_block_++];
  absl::StatusOr<std::span<const std::byte>> payload = Payload(block, &payload_);
  if (!payload.ok()) {
    if (!salvage_) return payload.status();
    gap_pending_ = true;
    return batch;
  }
  batch.records = *payload;
  batch.gap_before = block.gap_before;
  ReleaseUpTo(block.payload_offset);
  return batch;
}

class CaptureReader::DeviceSource final : public RecordSource {
 public:
  explicit DeviceSource(const CaptureReader& reader)
      : reader_(reader), gap_pending_(reader.device_gap_pending_) {}

  absl::StatusOr<RecordBatch> Next() override {
    RecordBatch batch;
    if (next_block_ == reader_.device_blocks_.size()) {
      batch.end = true;
      batch.gap_before = std::exchange(gap_pending_, false);
      return batch;
    }
    const Block& block = reader_.device_blocks_[next_block_++];
    const absl::StatusOr<std::span<const std::byte>> payload = reader_.Payload(block, &payload_);
    if (!payload.ok()) {
      if (!reader_.salvage_) return payload.status();
      gap_pending_ = true;
      return batch;
    }
    batch.records = *payload;
    batch.gap_before = block.gap_before;
    return batch;
  }

 private:
  const CaptureReader& reader_;
  size_t next_block_ = 0;
  bool gap_pending_;
  std::vector<std::byte> payload_;
};

std::unique_ptr<RecordSource> CaptureReader::DeviceRecords() {
  return std::make_unique<DeviceSource>(*this);
}

void CaptureReader::ReleaseUpTo(size_t offset) {
  if (mapping_ == nullptr || offset < released_bytes_ + kReleaseBytes) return;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t upto = offset / page * page;
  madvise(static_cast<std::byte*>(mapping_) + released_bytes_, upto - released_bytes_,
          MADV_DONTNEED);
  released_bytes_ = upto;
}

}  // namespace proftrace
