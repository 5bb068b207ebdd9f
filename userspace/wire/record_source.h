// Gives raw records from a capture file, or from a vector in a test. Readers of the records need
// not know which.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <span>

namespace proftrace {

struct RecordBatch {
  // Whole records, each as bpf/abi/records.h lays it out. Valid until the next call of Next().
  std::span<const std::byte> records;
  // Whether records are missing before this batch (a damaged block): nothing may be nested across
  // the gap.
  bool gap_before = false;
  bool end = false;  // nothing follows; `records` is empty
};

class RecordSource {
 public:
  virtual ~RecordSource() = default;
  virtual absl::StatusOr<RecordBatch> Next() = 0;
};

}  // namespace proftrace
