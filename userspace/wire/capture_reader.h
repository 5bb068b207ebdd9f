// Reads a capture file. Nothing in the file is trusted: sizes are bounded, checksums checked,
// unknown blocks skipped.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "userspace/wire/capture_bytes.h"
#include "userspace/wire/capture_format.h"
#include "userspace/wire/metadata.h"
#include "userspace/wire/record_source.h"

namespace proftrace {

class CaptureReader final : public RecordSource {
 public:
  struct Options {
    // Read the sound blocks of a damaged or unfinished file instead of failing with
    // ExitCode::kInputDamaged.
    bool salvage = false;
    // Keep the text of the metadata blocks, for a copy.
    bool keep_metadata_text = false;
  };

  // Opens `path`, a capture file or the result directory that holds one, and reads all metadata in
  // it.
  static absl::StatusOr<std::unique_ptr<CaptureReader>> Open(const std::string& path,
                                                             const Options& options);
  // Opens the capture in `fd`, and owns `fd` from then on. `path` is for messages only.
  static absl::StatusOr<std::unique_ptr<CaptureReader>> OpenFile(int fd, const std::string& path,
                                                                 const Options& options);
  // Opens a capture in memory, which must outlive the reader (tests, fuzzing).
  static absl::StatusOr<std::unique_ptr<CaptureReader>> FromBytes(std::span<const std::byte> bytes,
                                                                  const Options& options);
  ~CaptureReader() override;
  CaptureReader(const CaptureReader&) = delete;
  CaptureReader& operator=(const CaptureReader&) = delete;

  const CaptureMetadata& metadata() const { return metadata_; }
  const std::vector<std::string>& metadata_text() const { return metadata_text_; }
  const std::string& path() const { return path_; }
  // Says what was wrong with the file; empty when it is whole.
  const std::string& damage() const { return damage_; }
  // Returns whether no block of the file is sound, so that a salvage shows nothing.
  bool is_empty() const { return is_empty_; }

  absl::StatusOr<RecordBatch> Next() override;
  // Returns a source of all records of GPU agents. It may be read before, during or after the other
  // records. The reader must outlive it.
  std::unique_ptr<RecordSource> DeviceRecords();

 private:
  class BlockList;
  class DeviceSource;
  struct Block {
    BlockHeader header;
    size_t payload_offset;
    bool gap_before;
  };
  struct Found {
    std::vector<Block> blocks;  // by number, each once
    bool is_ended = false;
    bool is_cut = false;    // bytes that are no block follow the last block
    size_t end_offset = 0;  // where the search has ended
  };
  // How far the blocks of one kind were read.
  struct Position {
    size_t next_block = 0;
    bool gap = false;  // the block before turned out to be damaged
    std::vector<std::byte> stored;
    std::vector<std::byte> payload;
  };

  CaptureReader(std::string path, std::unique_ptr<CaptureBytes> bytes, bool salvage);
  absl::Status Index(const Options& options);
  // Returns the sound blocks from `offset` up to the end block; their `gap_before` is not set yet.
  // Left out are blocks that occur again (a copy that was resumed by appending all of it) and
  // blocks of another recording.
  absl::StatusOr<Found> FindBlocks(size_t offset);
  // Returns whether `text` is at `offset`.
  bool HasText(size_t offset, std::string_view text) const;
  // Returns whether the file's header is sound. Fails where it is not, except in a salvage.
  absl::StatusOr<bool> CheckFileHeader();
  // Returns whether there is a sound block at `offset`, and fills in `block` except for its
  // `gap_before`. `wasted_bytes` grows by the bytes that were read of the payload of a damaged
  // block. Fails when the file cannot be read there.
  absl::StatusOr<bool> ReadBlock(size_t offset, Block* block, uint64_t* wasted_bytes);
  absl::Status AddMetadata(const Block& block, bool keep_text);
  absl::StatusOr<RecordBatch> NextOf(const std::vector<Block>& blocks, Position* position);
  // Returns the decompressed payload, in one of the buffers or in the capture itself.
  absl::StatusOr<std::span<const std::byte>> Payload(const Block& block,
                                                     std::vector<std::byte>* stored_buffer,
                                                     std::vector<std::byte>* buffer) const;
  // Notes the first damage. Returns an error, except in a salvage.
  absl::Status Damaged(const std::string& what);
  absl::Status Damaged(const absl::Status& status);
  absl::Status NoCapture() const;

  std::string path_;
  std::unique_ptr<CaptureBytes> bytes_;
  bool salvage_;
  std::vector<Block> record_blocks_;
  std::vector<Block> device_blocks_;
  Position position_;
  bool gap_pending_ = false;
  bool device_gap_pending_ = false;
  CaptureMetadata metadata_;
  std::vector<std::string> metadata_text_;
  std::string damage_;
  bool is_empty_ = false;
  std::vector<std::byte> stored_;
  std::vector<std::byte> payload_;
};

}  // namespace proftrace
