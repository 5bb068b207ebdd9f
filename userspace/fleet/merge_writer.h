// What writes a merged timeline. It is told of each process in order, of each of its parts, and of
// the part's events; all times are on the common clock.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "userspace/collectives/source_input.h"

namespace proftrace {

struct MergeHead {
  int64_t base_ns = 0;  // not after the first event
  std::string summary;  // a JSON object: clocks, ranks, inputs
  std::string clock;    // of it, what is said of the clock; a JSON object
  uint32_t processes = 0;
  uint32_t machines = 0;
};

struct MergePart {
  uint32_t process = 0;  // by rank
  uint32_t machine = 0;
  // "rank 3", "rank 3, not aligned"; what stands before the names of its processes and threads.
  std::string label;
  std::string detail;                  // "host h0, PID 4711"
  const SourceFacts* facts = nullptr;  // nullptr: rows that the merge adds
  uint32_t input = 0;                  // by order of writing; unique
  std::optional<int32_t> rank;
  std::optional<int32_t> world_size;
  bool is_main = false;  // the part of the rank that a directory of Kineto files has
};

class MergeWriter {
 public:
  virtual ~MergeWriter() = default;
  virtual absl::Status Begin(const MergeHead& head) = 0;
  virtual absl::Status BeginPart(const MergePart& part) = 0;
  // `event` has common times. `link`: of an arrow between ranks, its own number; else 0. False in
  // `*is_written`: this output has no place for it.
  virtual absl::Status Event(const SourceEvent& event, uint64_t link, bool* is_written) = 0;
  virtual absl::Status EndPart() = 0;
  virtual absl::Status Finish() = 0;
};

}  // namespace proftrace
