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
    // Take what is whole of a damaged or unfinished file, instead of failing with
    // ExitCode::kInputDamaged.
    bool salvage = false;
    // Keep the metadata blocks as they are, for a copy.
    bool keep_metadata_text = false;
  };

  // Opens `path`, a capture file or the result directory that holds one, and reads all metadata in
  // it.
  static absl::StatusOr<std::unique_ptr<CaptureReader>> Open(const std::string& path,
                                                             const Options& options);
  // Opens the capture in `fd`, which it takes over. `path` is for messages only.
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

  absl::StatusOr<RecordBatch> Next() override;
  // Returns the records of GPU agents, from the first on: they may be read before the others, while
  // them or after them. Lives as long as the reader does.
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
    bool is_cut = false;    // what is no block lies behind the last of them
    size_t end_offset = 0;  // where the search has ended
  };
  // Where the reader of one kind of blocks stands.
  struct Position {
    size_t next_block = 0;
    bool gap = false;  // the block before was not whole after all
    std::vector<std::byte> stored;
    std::vector<std::byte> payload;
  };

  CaptureReader(std::string path, std::unique_ptr<CaptureBytes> bytes, bool salvage);
  absl::Status Index(const Options& options);
  // Returns the sound blocks from `offset` on to the end block, but for `gap_before`. A file may
  // have them again (a copy that was resumed by appending all), or those of another recording,
  // which are left out.
  absl::StatusOr<Found> FindBlocks(size_t offset);
  // Whether the file's header is sound; where it is not, only a salvage goes on.
  bool HasText(size_t offset, std::string_view text) const;
  absl::StatusOr<bool> CheckFileHeader();
  // Whether there is a sound block at `offset`, but for `gap_before`. `wasted_bytes` grows by what
  // was read of the payload of one that is not. Fails when the file cannot be read there.
  absl::StatusOr<bool> ReadBlock(size_t offset, Block* block, uint64_t* wasted_bytes);
  absl::Status AddMetadata(const Block& block, bool keep_text);
  absl::StatusOr<RecordBatch> NextOf(const std::vector<Block>& blocks, Position* position);
  // Returns the decompressed payload, in one of the buffers or in the capture itself.
  absl::StatusOr<std::span<const std::byte>> Payload(const Block& block,
                                                     std::vector<std::byte>* stored_buffer,
                                                     std::vector<std::byte>* buffer) const;
  // Notes the first damage. An error, but for a salvage.
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
  std::vector<std::byte> stored_;
  std::vector<std::byte> payload_;
};

}  // namespace proftrace
