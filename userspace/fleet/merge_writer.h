// The interface of the writers of a merged timeline. A writer is given each process in order, each
// part of the process, and the part's events; all times are on the common clock.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "userspace/collectives/source_input.h"

namespace proftrace {

struct MergeHead {
  int64_t base_ns = 0;  // the moment that times count from; not after the first event
  std::string summary;  // a JSON object: clocks, ranks, inputs
  std::string clock;    // the part of `summary` about the clock, a JSON object
  uint32_t processes = 0;
  uint32_t machines = 0;
};

struct MergePart {
  uint32_t process = 0;  // processes are numbered in the order of ranks
  uint32_t machine = 0;
  // The text before the names of the part's processes and threads: "rank 3", "rank 3, not aligned".
  std::string label;
  std::string detail;                  // "host h0, PID 4711"
  const SourceFacts* facts = nullptr;  // nullptr for the part with the rows that the merge adds
  uint32_t input = 0;                  // a unique number, in the order of writing
  std::optional<int32_t> rank;
  std::optional<int32_t> world_size;
  bool is_main = false;  // whether a directory of Kineto files has this part for the rank
};

class MergeWriter {
 public:
  virtual ~MergeWriter() = default;
  virtual absl::Status Begin(const MergeHead& head) = 0;
  virtual absl::Status BeginPart(const MergePart& part) = 0;
  // Writes an event, whose times are on the common clock. `link`: the number of an arrow between
  // ranks, else 0. Sets `*is_written` to false where this output cannot hold the event.
  virtual absl::Status Event(const SourceEvent& event, uint64_t link, bool* is_written) = 0;
  virtual absl::Status EndPart() = 0;
  virtual absl::Status Finish() = 0;
};

}  // namespace proftrace
