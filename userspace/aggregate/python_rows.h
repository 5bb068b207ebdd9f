// Python's calls as rows: torch.profiler's python_function rows, rebuilt from the stacks that spans
// saw when they began. A row is one activation of a frame, as far as that can be told: it begins
// with the first span that has the frame in its stack and ends with the last of the consecutive
// spans that have it.
//
// - Frames of consecutive spans are one activation when they have the same code, the same nn.Module
//   and the same frame below them; what the frame itself executes may change, and then its callees
//   are new. A function that is called again from the same place, without another span in between,
//   is thus one row.
// - Rows nest with everything else on their thread: what opens inside of a span ends with it at the
//   latest, and a span has around it only the frames that all spans inside of it have, too. For an
//   annotation these are the frames of the function that has the `with` statement, not those of
//   record_function.__enter__ (torch.profiler's own rows cross there). A row of a job's step is
//   such a span.
// - A node of the backward pass has its forward's stack, which is not what runs: it, and what lies
//   in it, has no part in this. Spans without a stack have none either.
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
  uint64_t before_row = 0;  // the row that it opens with, by StepRows' numbers: it lies around that
  StackId frame = kNoStack;    // as it was first seen
  uint32_t parent_plus_1 = 0;  // the row around it, whose frame called it; 0 = none
  ThreadIndex thread{};
  uint32_t reserved = 0;
};

class PythonRows {
 public:
  PythonRows() = default;  // none
  // Two passes over the spans. Rows past 32 MiB lie in an unlinked file in `spill_directory` (empty
  // = /tmp).
  PythonRows(const Timeline& timeline, const StepRows& steps, const std::string& spill_directory);

  // Says why there are no rows although there should be: the disk for the spill is full.
  const absl::Status& status() const { return status_; }
  // The rows are in the order in which they open, the outer one first.
  uint32_t size() const { return rows_ == nullptr ? 0 : rows_->size(); }
  const PythonRow& at(uint32_t index) const { return rows_->at(index); }

 private:
  std::unique_ptr<ChunkStore<PythonRow>> rows_;
  absl::Status status_;
};

}  // namespace proftrace
