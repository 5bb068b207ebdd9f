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
  // The same over bytes in memory, which must outlive the reader (tests, fuzzing).
  static absl::StatusOr<std::unique_ptr<CaptureReader>> FromBytes(std::span<const std::byte> bytes,
                                                                  const Options& options);
  ~CaptureReader() override;
  CaptureReader(const CaptureReader&) = delete;
  CaptureReader& operator=(const CaptureReader&) = delete;

  const CaptureMetadata& metadata() const { return metadata_; }
  const std::vector<std::string>& metadata_text() const { return metadata_text_; }
  // What was wrong with the file; empty when it is whole.
  const std::string& damage() const { return damage_; }

  absl::StatusOr<RecordBatch> Next() override;
  // The records of GPU agents, from the first on: they may be read before the others, while them or
  // after them. Lives as long as the reader does.
  std::unique_ptr<RecordSource> DeviceRecords();

 private:
  class DeviceSource;
  struct Block {
    BlockHeader header;
    size_t payload_offset;
    bool gap_before;
  };

  CaptureReader() = default;
  absl::Status Index(const Options& options);
  absl::Status CheckFileHeader() const;
  // The header of a sound block at `offset`, or false: then `wasted_bytes` grows by what was read
  // of its payload.
  bool ReadBlockHeader(size_t offset, BlockHeader* header, uint64_t* wasted_bytes) const;
  // The decompressed payload, in `buffer` or in the file itself.
  absl::StatusOr<std::span<const std::byte>> Payload(const Block& block,
                                                     std::vector<std::byte>* buffer) const;
  // Gives the mapping's pages before `offset` back, so that a long capture does not fill the
  // memory.
  void ReleaseUpTo(size_t offset);

  std::string path_;
  std::span<const std::byte> bytes_;
  void* mapping_ = nullptr;
  std::vector<Block> record_blocks_;
  std::vector<Block> device_blocks_;
  size_t next_block_ = 0;
  size_t released_bytes_ = 0;
  bool gap_pending_ = false;
  bool device_gap_pending_ = false;
  bool salvage_ = false;
  CaptureMetadata metadata_;
  std::vector<std::string> metadata_text_;
  std::string damage_;
  std::vector<std::byte> payload_;
};

}  // namespace proftrace
