// Takes blocks of records and of metadata while recording, and stores them in a file or in the
// memory of a flight recorder. For one thread.
#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace proftrace {

class BlockSink {
 public:
  virtual ~BlockSink() = default;

  // Appends at most kMaxBlockBytes of whole records.
  virtual absl::Status AppendRecords(std::span<const std::byte> records) = 0;
  // Appends records of GPU agents: at most kMaxBlockBytes; whole records.
  virtual absl::Status AppendDeviceRecords(std::span<const std::byte> records) = 0;
  // Appends the arrays that MetadataWriter::TakeJson() returned, one block for each.
  virtual absl::Status AppendMetadata(const std::vector<std::string>& json_arrays) = 0;
  // Makes the appended blocks as safe as this sink can: a file is written to the disk. Called now
  // and then.
  virtual absl::Status Sync() = 0;
  // Ends the output. Nothing may be appended afterwards.
  virtual absl::Status Finish() = 0;
};

}  // namespace proftrace
