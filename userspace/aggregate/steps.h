// Finds the steps of a recording's jobs without any code in the jobs: a step is a round of the
// outer loop of the thread that drives a process.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "userspace/model/timeline.h"
#include "userspace/steps/step_finder.h"

namespace proftrace {

struct Step {
  int64_t start_ns = 0;  // CLOCK_MONOTONIC
  int64_t end_ns = 0;    // the first moment after the step
  int64_t number = 0;    // the N of ProfilerStep#N
  bool is_cut = false;   // as FoundStep::is_cut: all its rows are known, but not how long it took
};

// The steps of another thread that runs a loop like that of the first thread: a server's pool, or a
// thread for each model.
struct ThreadSteps {
  ThreadIndex thread{};
  std::vector<Step> steps;  // whole steps in order, without overlaps
  int64_t median_ns = 0;
};

struct ProcessSteps {
  Pid pid{};
  ThreadIndex thread{};  // the thread that drives the loop; of several, that with the best evidence
  std::vector<Step> steps;          // the thread's whole steps in order, without overlaps
  std::vector<ThreadSteps> others;  // in order of their threads
  bool are_annotated = false;       // the job annotates its steps, so they are spans already
  std::string how;                  // the evidence as a phrase
  double confidence = 0;            // 0 to 1
  // Whether the steps of all threads take about as long, as in a server's pool. Where they do not,
  // as where two models are trained side by side, `median_ns` and `p99_ns` are of `thread` alone.
  bool are_alike = true;
  int64_t own_median_ns = 0;  // of the steps of `thread`
  int64_t median_ns = 0;
  int64_t p99_ns = 0;

  // Returns the number of steps on all threads.
  size_t count() const;
  // Returns the steps of `thread` whose durations tell something: without a last one that is cut,
  // if others are left to tell.
  std::span<const Step> timed_steps() const;
};

struct Steps {
  std::vector<ProcessSteps> processes;  // those with a step, in the order of their first thread
  std::optional<size_t> main;           // the process that stands for the recording
  // By ThreadIndex: an index into `processes`, for threads that run a loop with steps, and for
  // threads that work for the only such thread of their process. Rows of other threads belong to no
  // step.
  std::vector<std::optional<uint32_t>> process_of_thread;

  // Returns the step to which the thread's work at this time belongs; nullptr: none.
  const Step* At(ThreadIndex thread, int64_t time_ns) const;
};

// The number of items of threads that are held at a time: about 200 MiB.
inline constexpr size_t kMostStepItems = size_t{1} << 23;

// Finds the steps of all processes. Where these have more than `most_items` items together,
// processes are looked at one after the other.
Steps FindSteps(const Timeline& timeline, size_t most_items = kMostStepItems);

// Returns how many steps of the main process the window holds: the whole steps, and a fraction of a
// step for the time before the first and after the last one. nullopt: no steps were found, or they
// are a guess.
std::optional<double> StepsInWindow(const Timeline& timeline, const Steps& steps);

// Steps as rows among the rows of spans. A step is an annotation ProfilerStep#N on the thread that
// drives the loop, as torch.profiler has with a schedule. Rows are numbered in the order of their
// start; a step comes before the spans that begin at the same time.
class StepRows {
 public:
  struct Row {
    Step step;
    ThreadIndex thread{};
    uint32_t before_span = 0;  // the first span that begins in the step or later
    int64_t self_ns = 0;       // its duration less those of the spans whose parent it is
    SpanId parent = kNoSpan;   // the innermost annotation that encloses the whole step
  };

  StepRows() = default;  // none
  // Makes rows for the steps of all processes, except where the job annotates its steps and thus
  // has such rows already.
  StepRows(const Timeline& timeline, const Steps& steps);

  const std::vector<Row>& rows() const { return rows_; }
  // Returns the number of a span's row.
  uint64_t NumberOf(SpanId span) const;
  // Returns Kineto's "External id" of the row `number` of `span`, a number from 1 on by which other
  // tools link rows. A CUDA call has that of the operator around it; 0: there is no operator around
  // it.
  uint64_t ExternalId(const Timeline& timeline, const Span& span, uint64_t number) const;
  // Returns the number of the row `rows()[index]`.
  uint64_t NumberOfRow(size_t index) const { return rows_[index].before_span + index; }
  // Returns the work of devices for annotations. These rows count as annotations, and each piece of
  // work belongs to the innermost annotation around its call.
  const std::vector<DeviceAnnotation>& DeviceAnnotations(const Timeline& timeline) const {
    return device_annotations_.empty() ? timeline.device_annotations() : device_annotations_;
  }
  std::string NameOf(const Timeline& timeline, const DeviceAnnotation& annotation) const;

  // Returns the row that encloses all of this time, as an index into rows(); nullopt: there is
  // none.
  std::optional<size_t> At(ThreadIndex thread, int64_t start_ns, int64_t end_ns) const;
  // Returns the row that is a span's parent instead of Span::parent; nullopt: Span::parent holds.
  std::optional<size_t> ParentOf(const Span& span) const;
  // Returns the row that is the parent of the span, or of a span that encloses it; nullopt: there
  // is none.
  std::optional<size_t> Around(const Timeline& timeline, const Span& span) const;

 private:
  void FindParents(const Timeline& timeline);
  void FindDeviceAnnotations(const Timeline& timeline);

  std::vector<Row> rows_;
  std::vector<std::vector<uint32_t>> rows_of_thread_;  // by ThreadIndex: indices into rows_
  std::vector<DeviceAnnotation> device_annotations_;
};

}  // namespace proftrace
