// The calls of Python's functions as rows, like torch.profiler's python_function rows. They are
// rebuilt from the stacks that spans had when they began. A row is one activation of a frame, as
// far as that can be told: it begins with the first span that has the frame in its stack and ends
// with the last of the consecutive spans that have it.
//
// - Frames of consecutive spans are one activation when they have the same code, the same nn.Module
//   and the same frame below them; what the frame itself executes may change, and then its callees
//   are new. A function that is called again from the same place, without another span in between,
//   is thus one row.
// - Rows nest with all other rows on their thread: a row that opens inside of a span ends with the
//   span at the latest, and around a span are only the frames that all spans inside of it also
//   have. For an annotation these are the frames of the function that has the `with` statement, not
//   those of record_function.__enter__ (torch.profiler's own rows cross there). A row of a job's
//   step is such a span.
// - A node of the backward pass has its forward's stack, which is not the stack that runs: the node
//   and all spans in it are ignored here. Spans without a stack are ignored too.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <memory>
#include <string>

#include "userspace/aggregate/steps.h"
#include "userspace/model/timeline.h"

namespace proftrace {

struct PythonRow {
  int64_t start_ns = 0;  // CLOCK_MONOTONIC
  int64_t end_ns = 0;
  uint64_t before_row = 0;  // the number (StepRows) of the first row inside it, with which it opens
  StackId frame = kNoStack;    // the frame as it was first seen
  uint32_t parent_plus_1 = 0;  // 1 + index of the row around it, whose frame called it; 0 = none
  ThreadIndex thread{};
  uint32_t reserved = 0;
};

class PythonRows {
 public:
  PythonRows() = default;  // none
  // Makes the rows in two passes over the spans. Rows beyond 32 MiB lie in an unlinked file in
  // `spill_directory` (empty = /tmp).
  PythonRows(const Timeline& timeline, const StepRows& steps, const std::string& spill_directory);

  // Returns an error where there are no rows because the disk for the spill is full.
  const absl::Status& status() const { return status_; }
  // Return the rows, in the order in which they open, outer rows first.
  uint32_t size() const { return rows_ == nullptr ? 0 : rows_->size(); }
  const PythonRow& at(uint32_t index) const { return rows_->at(index); }

 private:
  std::unique_ptr<ChunkStore<PythonRow>> rows_;
  absl::Status status_;
};

}  // namespace proftrace
