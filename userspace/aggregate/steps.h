// The steps of a recording's jobs, found without code in them: rounds of the outer loop of the
// thread that drives each process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "userspace/model/timeline.h"
#include "userspace/steps/step_finder.h"

namespace proftrace {

struct Step {
  int64_t start_ns = 0;  // CLOCK_MONOTONIC
  int64_t end_ns = 0;    // not part of it
  int64_t number = 0;    // the N of ProfilerStep#N
};

// The steps of a further thread that goes round a loop like the first one's: a server's pool, a
// thread for each model.
struct ThreadSteps {
  ThreadIndex thread{};
  std::vector<Step> steps;  // whole ones, in order; they do not overlap
};

struct ProcessSteps {
  Pid pid{};
  ThreadIndex thread{};     // that drives the loop, the one with the best evidence of several
  std::vector<Step> steps;  // its whole ones, in order; they do not overlap
  std::vector<ThreadSteps> others;  // in order of their threads
  bool are_annotated = false;       // by the job: they are spans already
  std::string how;                  // the evidence, one phrase
  double confidence = 0;            // 0 to 1
  int64_t median_ns = 0;
  int64_t p99_ns = 0;

  // Returns the number of steps on all threads.
  size_t count() const;
};

struct Steps {
  std::vector<ProcessSteps> processes;  // those with a step, in the order of their first thread
  std::optional<size_t> main;           // the one that stands for the recording
  // By ThreadIndex: the index into `processes` of threads that go round loops with steps, or work
  // for the only thread of their process that does. What other threads do belongs to no step.
  std::vector<std::optional<uint32_t>> process_of_thread;

  // Returns the step that what the thread does at this time is of.
  const Step* At(ThreadIndex thread, int64_t time_ns) const;
};

// About so many items of threads are held at a time: 200 MiB.
inline constexpr size_t kMostStepItems = size_t{1} << 23;

// Processes of more than `most_items` together are looked at one after the other.
Steps FindSteps(const Timeline& timeline, size_t most_items = kMostStepItems);

// Returns how many steps of the main process the window holds: the whole ones, and at either end as
// much of one as there is time for. nullopt where no steps were found, or they are a guess.
std::optional<double> StepsInWindow(const Timeline& timeline, const Steps& steps);

// Steps as rows among those of the spans: ProfilerStep#N, an annotation on the thread that drives
// the loop, as torch.profiler has with a schedule. Rows are numbered in the order of their start, a
// step before the spans that begin with it.
class StepRows {
 public:
  struct Row {
    Step step;
    ThreadIndex thread{};
    uint32_t before_span = 0;  // the first span that begins in it or later
    int64_t self_ns = 0;       // its duration less that of the spans that it is the parent of
    SpanId parent = kNoSpan;   // the innermost annotation that all of it lies in
  };

  StepRows() = default;  // none
  // Makes the rows of all processes whose steps were found otherwise than by rows that are there
  // already.
  StepRows(const Timeline& timeline, const Steps& steps);

  const std::vector<Row>& rows() const { return rows_; }
  // Returns the number of a span's row.
  uint64_t NumberOf(SpanId span) const;
  // Returns the number, from 1 on, by which other tools link the row `number` of `span`: Kineto's
  // "External id". A CUDA call has that of the operator around it, 0 = it has none.
  uint64_t ExternalId(const Timeline& timeline, const Span& span, uint64_t number) const;
  // Returns the number of the row `rows()[index]`.
  uint64_t NumberOfRow(size_t index) const { return rows_[index].before_span + index; }
  // Returns what annotations, and these rows like them, asked devices for: each piece of work
  // belongs to the innermost.
  const std::vector<DeviceAnnotation>& DeviceAnnotations(const Timeline& timeline) const {
    return device_annotations_.empty() ? timeline.device_annotations() : device_annotations_;
  }
  std::string NameOf(const Timeline& timeline, const DeviceAnnotation& annotation) const;

  // Returns the row that all of this time lies in: index into rows().
  std::optional<size_t> At(ThreadIndex thread, int64_t start_ns, int64_t end_ns) const;
  // Returns the row that is the parent of a span in place of the one that it has.
  std::optional<size_t> ParentOf(const Span& span) const;
  // Returns the row that is the parent of the span, or of one that it lies in.
  std::optional<size_t> Around(const Timeline& timeline, const Span& span) const;

 private:
  void FindParents(const Timeline& timeline);
  void FindDeviceAnnotations(const Timeline& timeline);

  std::vector<Row> rows_;
  std::vector<std::vector<uint32_t>> rows_of_thread_;  // by ThreadIndex: indices into rows_
  std::vector<DeviceAnnotation> device_annotations_;
};

}  // namespace proftrace
