#include "userspace/aggregate/python_rows.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "userspace/aggregate/frame_tree.h"

namespace proftrace {
namespace {

constexpr size_t kRowMemoryBytes = size_t{32} << 20;

// A span or a step that is open on a thread.
struct OpenSpan {
  uint32_t index = 0;  // of the span, or of the step's row
  bool is_step = false;
  bool is_backward = false;  // the span is, or lies in, a node of the backward pass
  int64_t end_ns = 0;        // no later than the end of the span around it
  // For the first pass: the stack that this and all spans inside share.
  bool has_stack = false;
  StackId stack = kNoStack;
  size_t rows = 0;  // for the second pass: how many of the open Python rows are around it
};

// Visits the spans and steps in both passes, and tells `visitor` of each that opens and each that
// ends.
template <typename Visitor>
class Walk {
 public:
  Walk(const Timeline& timeline, const StepRows& steps, Visitor* visitor)
      : timeline_(timeline), steps_(steps), visitor_(*visitor), open_(timeline.threads().size()) {}

  absl::Status Run() {
    const SpanStore& spans = timeline_.spans();
    for (uint32_t chunk = 0; chunk < spans.chunk_count(); ++chunk) {
      const uint32_t first = chunk * SpanStore::kChunkItems;
      const uint32_t last = std::min(spans.size() - first, SpanStore::kChunkItems) + first;
      for (uint32_t index = first; index < last; ++index) {
        absl::Status status = OpenSpanAt(index, spans.at(index));
        if (!status.ok()) return status;
      }
      spans.Release(chunk);
    }
    if (absl::Status status = OpenStepsBefore(spans.size()); !status.ok()) return status;
    for (uint32_t thread = 0; thread < open_.size(); ++thread) {
      absl::Status status = CloseUntil(ThreadIndex{thread}, std::numeric_limits<int64_t>::max());
      if (!status.ok()) return status;
      visitor_.OnThreadEnd(ThreadIndex{thread});
    }
    return absl::OkStatus();
  }

 private:
  absl::Status OpenSpanAt(uint32_t index, const Span& span) {
    if (absl::Status status = OpenStepsBefore(index); !status.ok()) return status;
    OpenSpan open;
    open.index = index;
    open.is_backward = timeline_.columns().sequence.at(SpanId{index}).is_backward();
    open.end_ns = span.ended_elsewhere ? span.start_ns : span.end_ns();
    return Open(span.thread, span.start_ns, open);
  }

  absl::Status OpenStepsBefore(uint32_t index) {
    const std::vector<StepRows::Row>& rows = steps_.rows();
    for (; next_step_ < rows.size() && rows[next_step_].before_span <= index; ++next_step_) {
      const StepRows::Row& row = rows[next_step_];
      OpenSpan open;
      open.index = static_cast<uint32_t>(next_step_);
      open.is_step = true;
      open.end_ns = row.step.end_ns;
      absl::Status status = Open(row.thread, row.step.start_ns, open);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status Open(ThreadIndex thread, int64_t start_ns, OpenSpan open) {
    if (absl::Status status = CloseUntil(thread, start_ns); !status.ok()) return status;
    std::vector<OpenSpan>& around = open_[Raw(thread)];
    if (!around.empty()) {
      open.end_ns = std::min(open.end_ns, around.back().end_ns);
      open.is_backward |= around.back().is_backward;
    }
    if (absl::Status status = visitor_.OnOpen(thread, start_ns, &open); !status.ok()) {
      return status;
    }
    around.push_back(open);
    return absl::OkStatus();
  }

  absl::Status CloseUntil(ThreadIndex thread, int64_t time_ns) {
    std::vector<OpenSpan>& open = open_[Raw(thread)];
    while (!open.empty() && open.back().end_ns <= time_ns) {
      const OpenSpan over = open.back();
      open.pop_back();
      absl::Status status = visitor_.OnClose(thread, over, open.empty() ? nullptr : &open.back());
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  const Timeline& timeline_;
  const StepRows& steps_;
  Visitor& visitor_;
  size_t next_step_ = 0;
  std::vector<std::vector<OpenSpan>> open_;  // by thread, outermost first
};

// Finds the frames around each span: the part of its own stack that all spans inside of it share.
// For a span without a stack, and for a step, this is the part that the spans inside share.
class StacksAround {
 public:
  StacksAround(const Timeline& timeline, const FrameTree& frames, const StepRows& steps,
               const std::string& spill_directory)
      : timeline_(timeline),
        frames_(frames),
        of_steps_(steps.rows().size()),
        of_spans_(spill_directory) {}

  struct Around {
    bool has_stack = false;  // false: it has no part in the rows
    StackId stack = kNoStack;
  };

  Around Of(const OpenSpan& open) const {
    if (open.is_step) return of_steps_[open.index];
    if (open.is_backward) return {};
    const SpanId id{open.index};
    if (const uint32_t exception = of_spans_.at(id); exception != 0) {
      return {true, StackId{exception - 1}};
    }
    if (timeline_.stack_of(id) == kNoStack) return {};
    return {true, frames_.Shown(id)};
  }

  absl::Status OnOpen(ThreadIndex, int64_t, OpenSpan* open) {
    if (open->is_step || open->is_backward) return absl::OkStatus();
    const SpanId id{open->index};
    open->has_stack = timeline_.stack_of(id) != kNoStack;
    if (open->has_stack) open->stack = frames_.Shown(id);
    return absl::OkStatus();
  }

  absl::Status OnClose(ThreadIndex, const OpenSpan& over, OpenSpan* parent) {
    if (!over.has_stack) return absl::OkStatus();
    if (parent != nullptr) {
      parent->stack = parent->has_stack ? frames_.Common(parent->stack, over.stack) : over.stack;
      parent->has_stack = true;
    }
    if (over.is_step) {
      of_steps_[over.index] = {true, over.stack};
      return absl::OkStatus();
    }
    const SpanId id{over.index};
    if (timeline_.stack_of(id) != kNoStack && over.stack == frames_.Shown(id)) {
      return absl::OkStatus();
    }
    return of_spans_.Set(id, Raw(over.stack) + 1);
  }

  void OnThreadEnd(ThreadIndex) {}

 private:
  const Timeline& timeline_;
  const FrameTree& frames_;
  std::vector<Around> of_steps_;
  SpanColumn<uint32_t> of_spans_;  // StackId + 1, where it is not what the span shows
};

class RowBuilder {
 public:
  RowBuilder(const Timeline& timeline, const FrameTree& frames, const StepRows& steps,
             const StacksAround& around, ChunkStore<PythonRow>* rows)
      : frames_(frames), steps_(steps), around_(around), rows_(*rows) {
    open_.resize(timeline.threads().size());
  }

  absl::Status OnOpen(ThreadIndex thread, int64_t start_ns, OpenSpan* open) {
    std::vector<OpenRow>& rows = open_[Raw(thread)];
    const StacksAround::Around around = around_.Of(*open);
    if (around.has_stack) {
      CloseRows(&rows, Continued(rows, around.stack));
      for (size_t i = new_frames_.size(); i-- > 0;) {
        PythonRow row;
        row.start_ns = start_ns;
        row.before_row =
            open->is_step ? steps_.NumberOfRow(open->index) : steps_.NumberOf(SpanId{open->index});
        row.frame = new_frames_[i];
        row.parent_plus_1 = rows.empty() ? 0 : rows.back().row + 1;
        row.thread = thread;
        if (absl::Status status = rows_.Append(row); !status.ok()) return status;
        rows.push_back({rows_.size() - 1, row.frame, start_ns});
      }
      if (!rows.empty()) Extend(&rows.back(), open->end_ns);
    }
    open->rows = rows.size();
    return absl::OkStatus();
  }

  absl::Status OnClose(ThreadIndex thread, const OpenSpan& over, OpenSpan*) {
    CloseRows(&open_[Raw(thread)], over.rows);
    return absl::OkStatus();
  }

  void OnThreadEnd(ThreadIndex thread) { CloseRows(&open_[Raw(thread)], 0); }

 private:
  struct OpenRow {
    uint32_t row = 0;
    StackId frame = kNoStack;  // as it was last seen
    int64_t end_ns = 0;        // of the last span in it so far
  };

  static void Extend(OpenRow* row, int64_t end_ns) { row->end_ns = std::max(row->end_ns, end_ns); }

  // Returns how many of the open rows are activations in `stack`. The other frames of the stack go
  // to new_frames_, innermost first.
  size_t Continued(std::vector<OpenRow>& rows, StackId stack) {
    new_frames_.clear();
    for (; frames_.at(stack).depth > rows.size(); stack = frames_.at(stack).parent) {
      new_frames_.push_back(stack);
    }
    for (; stack != kNoStack; stack = frames_.at(stack).parent) {
      const size_t depth = frames_.at(stack).depth;
      OpenRow& row = rows[depth - 1];
      if (row.frame == stack) return depth;
      if (frames_.at(row.frame).parent == frames_.at(stack).parent &&
          frames_.AreOne(row.frame, stack)) {
        row.frame = stack;
        return depth;
      }
      new_frames_.push_back(stack);
    }
    return 0;
  }

  // Closes all rows but the `count` outermost ones.
  void CloseRows(std::vector<OpenRow>* rows, size_t count) {
    while (rows->size() > count) {
      const OpenRow over = rows->back();
      rows->pop_back();
      rows_.at(over.row).end_ns = over.end_ns;
      if (!rows->empty()) Extend(&rows->back(), over.end_ns);
    }
  }

  const FrameTree& frames_;
  const StepRows& steps_;
  const StacksAround& around_;
  ChunkStore<PythonRow>& rows_;
  std::vector<std::vector<OpenRow>> open_;  // by thread, outermost first
  std::vector<StackId> new_frames_;
};

}  // namespace

PythonRows::PythonRows(const Timeline& timeline, const StepRows& steps,
                       const std::string& spill_directory) {
  if (!timeline.columns().stack.exists()) return;
  rows_ = std::make_unique<ChunkStore<PythonRow>>(spill_directory, kRowMemoryBytes);
  const FrameTree frames(timeline);
  StacksAround around(timeline, frames, steps, spill_directory);
  status_ = Walk<StacksAround>(timeline, steps, &around).Run();
  if (!status_.ok()) return;
  RowBuilder builder(timeline, frames, steps, around, rows_.get());
  status_ = Walk<RowBuilder>(timeline, steps, &builder).Run();
}

}  // namespace proftrace
