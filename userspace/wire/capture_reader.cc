#include "userspace/wire/capture_reader.h"

#include <absl/container/flat_hash_map.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "userspace/base/exit_status.h"
#include "userspace/base/tar.h"

namespace proftrace {
namespace {

// The most bytes of damaged payloads that are read, as a multiple of the file's size. Payloads do
// not overlap, so in a file with mere damage they have no more bytes than the file. A file that was
// made to be slow has the same bytes in many payloads.
constexpr uint64_t kMostWasted = 4;

constexpr std::string_view kBlockMagicBytes = "PTBK";
static_assert(kBlockMagic == 0x4b425450);

// Returns where the capture lies in the file: it is the whole file, or lies in a tar archive
// (record -o FILE.tar). An archive that was cut off holds less of the capture than its head says.
absl::StatusOr<TarPlace> PlaceOfCapture(int fd, uint64_t size, const std::string& path) {
  std::array<std::byte, kTarBlockBytes> block{};
  const auto read = [&](uint64_t offset) -> std::optional<std::span<const std::byte>> {
    if (offset > size || size - offset < block.size() ||
        pread(fd, block.data(), block.size(), static_cast<off_t>(offset)) !=
            static_cast<ssize_t>(block.size())) {
      return std::nullopt;
    }
    return block;
  };
  const std::optional<std::span<const std::byte>> first = read(0);
  if (!first.has_value() || !IsTar(*first)) return TarPlace{0, size};
  const TarSearch search = FindInTar("capture.ptrec", read);
  if (search.count > 1) {
    return Fail(ExitCode::kInputDamaged, path + " holds " + std::to_string(search.count) +
                                             " captures: unpack it (tar xf) and give one of them");
  }
  if (!search.first.has_value() || search.first->offset + sizeof(CaptureFileHeader) > size ||
      search.first->bytes < sizeof(CaptureFileHeader)) {
    return Fail(ExitCode::kInputDamaged, path + " is a tar archive without a capture.ptrec");
  }
  return TarPlace{search.first->offset, std::min(search.first->bytes, size - search.first->offset)};
}

}  // namespace

CaptureReader::~CaptureReader() = default;

absl::StatusOr<std::unique_ptr<CaptureReader>> CaptureReader::Open(const std::string& path,
                                                                   const Options& options) {
  std::string file = path;
  struct stat info {};
  if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) file = path + "/capture.ptrec";
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const int error = errno;
    // --schedule and --flight-recorder write several results.
    for (const char* part : {"/cycle_0", "/dump_0"}) {
      if (stat((path + part).c_str(), &info) != 0) continue;
      return Fail(ExitCode::kInputDamaged,
                  path + " holds several results: give one of them, " + path + part + " say");
    }
    return Fail(ExitCode::kInputDamaged, "cannot open the capture " + file + ": " +
                                             ErrnoText(error) +
                                             "; give a result directory or a "
                                             ".ptrec file");
  }
  return OpenFile(fd, file, options);
}

absl::StatusOr<std::unique_ptr<CaptureReader>> CaptureReader::OpenFile(int fd,
                                                                       const std::string& path,
                                                                       const Options& options) {
  struct stat info {};
  const bool is_file = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  const size_t size = static_cast<size_t>(info.st_size);
  if (S_ISFIFO(info.st_mode)) {
    close(fd);
    return Fail(ExitCode::kInputDamaged, path +
                                             " is a pipe, and a capture cannot be read from one: "
                                             "write it to a file and give that");
  }
  if (!is_file || size < sizeof(CaptureFileHeader)) {
    close(fd);
    return Fail(ExitCode::kInputDamaged, path + " is not a proftrace capture");
  }
  posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  const absl::StatusOr<TarPlace> place = PlaceOfCapture(fd, size, path);
  if (!place.ok()) {
    close(fd);
    return place.status();
  }
  std::unique_ptr<CaptureReader> reader(new CaptureReader(
      path, std::make_unique<CaptureBytes>(fd, static_cast<size_t>(place->bytes), place->offset),
      options.salvage));
  if (absl::Status status = reader->Index(options); !status.ok()) return status;
  return reader;
}

absl::StatusOr<std::unique_ptr<CaptureReader>> CaptureReader::FromBytes(
    std::span<const std::byte> bytes, const Options& options) {
  std::unique_ptr<CaptureReader> reader(
      new CaptureReader("capture", std::make_unique<CaptureBytes>(bytes), options.salvage));
  if (absl::Status status = reader->Index(options); !status.ok()) return status;
  return reader;
}

CaptureReader::CaptureReader(std::string path, std::unique_ptr<CaptureBytes> bytes, bool salvage)
    : path_(std::move(path)), bytes_(std::move(bytes)), salvage_(salvage) {}

absl::Status CaptureReader::Damaged(const std::string& what) {
  if (damage_.empty()) damage_ = what;
  if (salvage_) return absl::OkStatus();
  return Fail(ExitCode::kInputDamaged,
              path_ + " is damaged: " + what +
                  "; the option --salvage (of report, export, view and merge) takes what is whole");
}

absl::Status CaptureReader::Damaged(const absl::Status& status) {
  return Damaged(std::string(status.message()));
}

absl::Status CaptureReader::NoCapture() const {
  return Fail(ExitCode::kInputDamaged, path_ + " is not a proftrace capture");
}

bool CaptureReader::HasText(size_t offset, std::string_view text) const {
  if (bytes_->size() < offset + text.size()) return false;
  std::vector<std::byte> buffer;
  const auto bytes = bytes_->Read(offset, text.size(), &buffer);
  return bytes.ok() && std::memcmp(bytes->data(), text.data(), text.size()) == 0;
}

absl::StatusOr<bool> CaptureReader::CheckFileHeader() {
  CaptureFileHeader header;
  if (bytes_->size() < sizeof(header)) return NoCapture();
  std::vector<std::byte> buffer;
  const auto bytes = bytes_->Read(0, sizeof(header), &buffer);
  if (!bytes.ok()) {
    if (absl::Status status = Damaged(bytes.status()); !status.ok()) return status;
    return false;
  }
  std::memcpy(&header, bytes->data(), sizeof(header));
  const bool is_capture = std::memcmp(header.magic, kCaptureMagic, sizeof(header.magic)) == 0;
  const bool is_sound =
      header.checksum == XXH3_64bits(&header, offsetof(CaptureFileHeader, checksum));
  if (is_capture && is_sound && header.version > kCaptureVersion) {
    return Fail(ExitCode::kInputDamaged, path_ + " was written by a newer proftrace (format " +
                                             std::to_string(header.version) +
                                             "); use that version to read it");
  }
  if (is_capture && is_sound && header.header_bytes == sizeof(header)) return true;
  // The block is looked for nowhere else, because a file that is no capture may have terabytes.
  if (!is_capture && !salvage_ && !HasText(sizeof(header), kBlockMagicBytes)) return NoCapture();
  if (absl::Status status = Damaged("its header is wrong"); !status.ok()) return status;
  return false;
}

absl::StatusOr<bool> CaptureReader::ReadBlock(size_t offset, Block* block, uint64_t* wasted_bytes) {
  BlockHeader& header = block->header;
  if (bytes_->size() - offset < sizeof(header)) return false;
  const auto head = bytes_->Read(offset, sizeof(header), &stored_);
  if (!head.ok()) return head.status();
  std::memcpy(&header, head->data(), sizeof(header));
  block->payload_offset = offset + sizeof(header);
  const bool is_whole =
      header.magic == kBlockMagic &&
      header.header_checksum == XXH3_64bits(&header, offsetof(BlockHeader, header_checksum)) &&
      header.raw_bytes <= kMaxBlockBytes &&
      header.stored_bytes <= ZSTD_compressBound(kMaxBlockBytes) &&
      header.stored_bytes <= bytes_->size() - block->payload_offset;
  if (!is_whole) return false;
  const auto payload = bytes_->Read(block->payload_offset, header.stored_bytes, &stored_);
  if (!payload.ok()) return payload.status();
  const bool is_sound =
      header.payload_checksum == XXH3_64bits(payload->data(), header.stored_bytes);
  if (!is_sound) *wasted_bytes += header.stored_bytes;
  return is_sound;
}

// Collects the sound blocks of a file in the order of the file.
class CaptureReader::BlockList {
 public:
  // Adds a block. Returns false where a different block has its number: the blocks since the
  // numbers began to rise again belong to another recording, with another clock, and are removed.
  bool Add(const Block& block, size_t offset) {
    const uint32_t number = block.header.sequence;
    if (!blocks_.empty() && number <= last_number_) {
      run_begin_ = blocks_.size();
      run_offset_ = offset;
    }
    last_number_ = number;
    const auto [it, is_new] = known_.try_emplace(number, block.header.header_checksum);
    if (is_new) {
      blocks_.push_back(block);
    } else if (it->second == block.header.header_checksum) {
      ++repeated_;
    } else {
      blocks_.resize(run_begin_);
      return false;
    }
    return true;
  }

  size_t size() const { return blocks_.size(); }
  size_t repeated() const { return repeated_; }
  // Returns where the rising numbers up to the last one begin.
  size_t run_offset() const { return run_offset_; }

  // Returns the blocks in the order of their numbers.
  std::vector<Block> Take() {
    std::sort(blocks_.begin(), blocks_.end(),
              [](const Block& a, const Block& b) { return a.header.sequence < b.header.sequence; });
    return std::move(blocks_);
  }

 private:
  std::vector<Block> blocks_;
  absl::flat_hash_map<uint32_t, uint64_t> known_;  // the checksum of the header, by number
  uint32_t last_number_ = 0;
  size_t run_begin_ = 0;
  size_t run_offset_ = 0;
  size_t repeated_ = 0;
};

absl::StatusOr<CaptureReader::Found> CaptureReader::FindBlocks(size_t offset) {
  const size_t size = bytes_->size();
  Found found;
  BlockList blocks;
  uint64_t wasted_bytes = 0;
  while (offset < size && !found.is_ended) {
    Block block{};
    const absl::StatusOr<bool> is_sound = ReadBlock(offset, &block, &wasted_bytes);
    if (!is_sound.ok() || !*is_sound) {
      absl::Status status = is_sound.ok()
                                ? Damaged("no whole block at byte " + std::to_string(offset))
                                : Damaged(is_sound.status());
      if (!status.ok()) return status;
      found.is_cut = true;
      if (wasted_bytes > kMostWasted * size) {
        damage_ +=
            "; too many damaged blocks, none was looked for after byte " + std::to_string(offset);
        break;
      }
      // Look for the next sound block.
      offset = bytes_->Find(kBlockMagicBytes, offset + 1).value_or(size);
      continue;
    }
    const size_t before = blocks.size();
    const bool is_own = blocks.Add(block, offset);
    const bool is_new = is_own && blocks.size() > before;
    if (!is_new) {
      absl::Status status = Damaged("a second block " + std::to_string(block.header.sequence) +
                                    " is at byte " + std::to_string(offset));
      if (!status.ok()) return status;
    }
    if (!is_own) {
      damage_ += "; what begins at byte " + std::to_string(blocks.run_offset()) +
                 " is of another recording and was left out";
      found.is_cut = true;
      break;
    }
    offset = block.payload_offset + block.header.stored_bytes;
    if (!is_new) continue;
    found.is_cut = false;
    found.is_ended = block.header.type == static_cast<uint16_t>(BlockType::kEnd);
  }
  if (blocks.repeated() > 0) {
    damage_ +=
        "; blocks that are there twice were taken once: " + std::to_string(blocks.repeated());
  }
  found.end_offset = offset;
  found.blocks = blocks.Take();
  return found;
}

absl::Status CaptureReader::Index(const Options& options) {
  const absl::StatusOr<bool> has_header = CheckFileHeader();
  if (!has_header.ok()) return has_header.status();
  const size_t size = bytes_->size();
  const absl::StatusOr<Found> found = FindBlocks(
      *has_header ? sizeof(CaptureFileHeader) : bytes_->Find(kBlockMagicBytes, 0).value_or(size));
  if (!found.ok()) return found.status();
  is_empty_ = found->blocks.empty();
  if (is_empty_ && !*has_header) return NoCapture();
  uint32_t expected_sequence = 0;
  bool gap = false;         // since the last block of records
  bool device_gap = false;  // since the last block of device records
  for (Block block : found->blocks) {
    // It is not known of which kind the missing block is.
    gap = gap || block.header.sequence != expected_sequence;
    device_gap = device_gap || block.header.sequence != expected_sequence;
    expected_sequence = block.header.sequence + 1;
    switch (static_cast<BlockType>(block.header.type)) {
      case BlockType::kRecords:
        block.gap_before = std::exchange(gap, false);
        record_blocks_.push_back(block);
        break;
      case BlockType::kDeviceRecords:
        block.gap_before = std::exchange(device_gap, false);
        device_blocks_.push_back(block);
        break;
      case BlockType::kMetadata:
        if (absl::Status status = AddMetadata(block, options.keep_metadata_text); !status.ok()) {
          return status;
        }
        break;
      default:  // the end, or a block of a newer version, which is skipped by its size
        break;
    }
  }
  gap_pending_ = gap || found->is_cut;
  device_gap_pending_ = device_gap || found->is_cut;
  if (!found->is_ended) return Damaged("it was not closed properly, the end is missing");
  if (found->end_offset == size) return absl::OkStatus();
  // Two captures that were concatenated have two clocks, so the second one is not read.
  return Damaged(std::to_string(size - found->end_offset) + " bytes lie behind its end, at byte " +
                 std::to_string(found->end_offset));
}

absl::Status CaptureReader::AddMetadata(const Block& block, bool keep_text) {
  const auto payload = Payload(block, &stored_, &payload_);
  if (!payload.ok()) return Damaged(payload.status());
  const std::string_view text(reinterpret_cast<const char*>(payload->data()), payload->size());
  if (keep_text) metadata_text_.emplace_back(text);
  const absl::Status merged = metadata_.Merge(text);
  return merged.ok() ? merged : Damaged(merged);
}

absl::StatusOr<std::span<const std::byte>> CaptureReader::Payload(
    const Block& block, std::vector<std::byte>* stored_buffer,
    std::vector<std::byte>* buffer) const {
  const auto stored = bytes_->Read(block.payload_offset, block.header.stored_bytes, stored_buffer);
  if (!stored.ok()) return stored.status();
  if (block.header.payload_checksum != XXH3_64bits(stored->data(), stored->size())) {
    return Fail(ExitCode::kInputDamaged, "a block was changed while it was read");
  }
  if (block.header.compression == static_cast<uint16_t>(BlockCompression::kNone)) return stored;
  buffer->resize(block.header.raw_bytes);
  const size_t bytes =
      ZSTD_decompress(buffer->data(), buffer->size(), stored->data(), stored->size());
  if (ZSTD_isError(bytes) || bytes != block.header.raw_bytes) {
    return Fail(ExitCode::kInputDamaged, "a block does not decompress");
  }
  return std::span<const std::byte>(*buffer);
}

absl::StatusOr<RecordBatch> CaptureReader::NextOf(const std::vector<Block>& blocks,
                                                  Position* position) {
  RecordBatch batch;
  batch.gap_before = std::exchange(position->gap, false);
  if (position->next_block == blocks.size()) {
    batch.end = true;
    return batch;
  }
  const Block& block = blocks[position->next_block++];
  const auto payload = Payload(block, &position->stored, &position->payload);
  if (!payload.ok()) {
    if (absl::Status status = Damaged(payload.status()); !status.ok()) {
      return status;
    }
    position->gap = true;
    return batch;
  }
  batch.records = *payload;
  batch.gap_before = batch.gap_before || block.gap_before;
  return batch;
}

absl::StatusOr<RecordBatch> CaptureReader::Next() {
  absl::StatusOr<RecordBatch> batch = NextOf(record_blocks_, &position_);
  if (batch.ok() && batch->end) batch->gap_before |= std::exchange(gap_pending_, false);
  return batch;
}

class CaptureReader::DeviceSource final : public RecordSource {
 public:
  explicit DeviceSource(CaptureReader* reader)
      : reader_(reader), gap_pending_(reader->device_gap_pending_) {}

  absl::StatusOr<RecordBatch> Next() override {
    absl::StatusOr<RecordBatch> batch = reader_->NextOf(reader_->device_blocks_, &position_);
    if (batch.ok() && batch->end) batch->gap_before |= std::exchange(gap_pending_, false);
    return batch;
  }

 private:
  CaptureReader* reader_;
  Position position_;
  bool gap_pending_;
};

std::unique_ptr<RecordSource> CaptureReader::DeviceRecords() {
  return std::make_unique<DeviceSource>(this);
}

}  // namespace proftrace
