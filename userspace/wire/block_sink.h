// Where blocks of records and of metadata go while recording: a file, or the memory of a flight
// recorder. For one thread.
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

  // At most kMaxBlockBytes; whole records.
  virtual absl::Status AppendRecords(std::span<const std::byte> records) = 0;
  // The same of records of GPU agents.
  virtual absl::Status AppendDeviceRecords(std::span<const std::byte> records) = 0;
  // What MetadataWriter::TakeJson() gave, a block each.
  virtual absl::Status AppendMetadata(const std::vector<std::string>& json_arrays) = 0;
  // Called now and then: what was appended is to survive what it can.
  virtual absl::Status Sync() = 0;
  // Nothing may be appended afterwards.
  virtual absl::Status Finish() = 0;
};

}  // namespace proftrace
