// Rebuilds nesting: events in order of time become spans with parents, per thread.
//
// A call's end is found by its site and its stack pointer, never by last-in-first-out alone, so
// that a lost or unwound end cannot give anything a wrong parent:
// - a live call's entry stack pointer is above that of everything it calls. Before a begin at stack
// pointer s, open calls
//   whose entry was at or below s are over (kLost); before an end, those below s.
// - at a catch at stack pointer s, open calls whose entry was at or below s were unwound
// (kException).
// - annotations and other rows with an object of their own end by its address, whatever is open
// above them, and on whatever thread. They may outlive their own thread: what nobody has ended by
// the end of its process or of the recording is truncated where its thread ended.
// - a loss marker truncates what is open on that thread, a gap what is open on all.
// - a call of CUDA that the GPU agent tells of comes whole, with its begin and its end: it lies in
// what is open at its begin.
// - memory belongs to what is open on the thread that allocates or frees it, as in the event tree
// of
//   torch's profiler (torch/csrc/profiler/collection.cpp).
// This assumes one stack a thread: a coroutine library that switches stacks inside an operator
// gives kLost ends. begins = closed + end_by_exception + end_lost + truncated holds when Finish()
// has returned.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/flat_hash_map.h>
#include <absl/functional/function_ref.h>
#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "userspace/decode/event.h"
#include "userspace/merge/forward_links.h"
#include "userspace/merge/memory_tracker.h"
#include "userspace/merge/open_frames.h"
#include "userspace/model/recording.h"
#include "userspace/model/timeline.h"
#include "userspace/stats/ledger.h"

namespace proftrace {

// A call of the CUDA Runtime or Driver, from a GPU agent.
struct CompleteCall {
  Pid pid{};
  Tid tid{};
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  LabelId label{};
  CudaCall facts;
  bool is_shown = true;  // false: no row, but its place is asked for
};

// Where a call was made.
struct CallPlace {
  SpanId row = kNoSpan;         // its own, or that of the call that it is part of
  SpanId op = kNoSpan;          // the innermost row around it that is no annotation
  SpanId annotation = kNoSpan;  // the innermost annotation around it
};

class SpanBuilder {
 public:
  // Rows that outlive their threads: past it the older half of them is truncated.
  static constexpr size_t kMostOutliving = size_t{1} << 16;

  // `labels`: what Event::label indexes; it may grow between calls. `window_end_ns`: begins after
  // it are left out.
  SpanBuilder(const std::vector<Label>& labels, std::optional<int64_t> window_end_ns,
              TimelineBuilder* timeline, Ledger* ledger);

  // Sets what gives the last one alone of several inputs. It is called while events are added.
  void SetLastInput(std::function<InputsId(InputsId)> last) { last_input_ = std::move(last); }

  // Operators whose calls were only counted, each from some moment on: until all calls were over
  // that were open then, their ends came without a begin.
  void SetDemoted(const std::vector<DemotedOperator>& demoted);

  // Events in order of time. Fails only when the timeline cannot grow.
  absl::Status Add(const Event& event);

  // Adds a call. They must come in order of their begin among each other and among the events.
  absl::StatusOr<CallPlace> AddCall(const CompleteCall& call);

  // Truncates what is still open.
  absl::Status Finish();

  // Rows deeper than kMostPathLevels.
  uint64_t rows_of_cut_paths() const { return rows_of_cut_paths_; }

 private:
  using Frame = OpenFrame;

  struct ThreadState {
    Pid pid{};
    Tid tid{};
    std::optional<ThreadIndex> index;  // from its first span on
    OpenFrames open;
    SpanId opened = kNoSpan;         // the row that began last
    SpanId opened_before = kNoSpan;  // … and the one before it
    int64_t last_ns = 0;
    CallPlace last_call;  // of AddCall()
    int64_t last_call_end_ns = 0;
    std::vector<SpanId> calls;   // AddCall()'s, those that may end after what comes next
    MemorySums memory;           // since the first event of the thread
    uint64_t script_frames = 0;  // of TorchScript's that began
  };

  // The rows that are open and began on threads that have ended: as if each process had one more
  // thread with all of them, whose sums of memory stay 0.
  struct Outliving {
    absl::btree_map<Pid, std::unique_ptr<ThreadState>> by_pid;
    size_t count = 0;
  };

  ThreadState& StateOf(Pid pid, Tid tid);
  // `is_below_top`: in what is below the innermost call, which is hidden and stays on top.
  absl::StatusOr<Frame*> Open(const Event& event, ThreadState& thread, Frame frame,
                              bool is_below_top = false);
  // Returns the event's own inputs, or those that it shares with the row around it.
  InputsId InputsOf(const Event& event, SpanId parent) const;
  absl::Status OnBegin(const Event& event, ThreadState& thread);
  void OnEnd(const Event& event, ThreadState& thread);
  void OnCatch(const Event& event, ThreadState& thread);
  absl::Status OnAnnotationBegin(const Event& event, ThreadState& thread);
  void OnAnnotationHandle(const Event& event, ThreadState& thread);
  void OnAnnotationGuard(const Event& event, ThreadState& thread);
  void OnAnnotationEnd(const Event& event, ThreadState& thread);
  absl::Status OnGuardBegin(const Event& event, ThreadState& thread);
  void OnGuardEnd(const Event& event, ThreadState& thread);
  void OnFrameEnd(const Event& event, ThreadState& thread);
  // Ends the row that `find` gives of OpenFrames if another thread of the process began it: torch
  // calls such a row asynchronous.
  template <typename Find>
  bool CloseElsewhere(const Event& event, Find find);
  void OnThreadExit(const Event& event, ThreadState& thread);
  // Takes what may end elsewhere out of the thread, which ends.
  Frame SetAside(const Event& exit, ThreadState& thread, Frame* frame);
  struct Outlived {
    Outliving* where = nullptr;  // null = none
    ThreadState* state = nullptr;
    Frame* frame = nullptr;
  };
  // Finds the latest frame of the process that `find` gives.
  Outlived FindOutliving(Pid pid, absl::FunctionRef<Frame*(const OpenFrames&)> find);
  void CloseOutlived(const Outlived& outlived, int64_t time_ns, SpanEnd end);
  // Ends what had the address at which something has begun.
  void OnAddressTaken(const Event& begin);
  void TruncateOutliving(Outliving* outliving);
  void TruncateOutliving(Pid pid, Outliving* outliving);
  // Whether the label is that of the engine's row around a node, or kDistEngineName.
  bool IsEnginesLabel(EventLabel label) const;
  bool IsDistEngine(const Event& event) const;
  // Whether kDistEngineName runs a node, without the engine's row around it.
  bool IsBareNode(const Event& event, const ThreadState& thread) const;
  // Whether torch has no row of the call: it is how the CUDA Runtime does what it was called for,
  // or a collection of garbage that was asked for while one runs.
  bool IsInnerCall(const Event& event, SpanId parent) const;
  bool IsCollection(SpanId span) const;
  // Gives the row that began last on the thread its sequence number.
  void OnSequence(const Event& event, ThreadState& thread);
  void SetSequence(const Event& event, Frame* frame);
  void NumberRow(const Event& event, SpanId span);
  bool IsEngineRow(SpanId span) const;
  absl::Status OnMemory(const Event& event, ThreadState& thread);
  void OnLoss(const Event& event, ThreadState& thread);
  // Returns the memory that the thread allocated and freed since the frame's begin.
  static MemorySums MemorySince(const ThreadState& thread, const Frame& frame);
  void SetMemory(const ThreadState& thread, const Frame& frame);

  // Closes calls from the innermost on, while is_over(frame) holds; annotations stay open.
  template <typename Predicate>
  void CloseCallsWhile(ThreadState& thread, int64_t time_ns, SpanEnd end, Predicate is_over);
  // Closes the frame, which is gone afterwards.
  void Close(ThreadState& thread, Frame* frame, int64_t time_ns, SpanEnd end);
  void SettleChildren(Frame* ending, int64_t time_ns);
  // Settles the calls in a frame whose end was known before that of the frame.
  void SettleCalls(const ThreadState& thread, Frame* frame, int64_t time_ns);
  // Adds a span in `parent`, of which only times and label are set.
  absl::StatusOr<SpanId> AddRow(ThreadState& thread, SpanId parent, Span span);
  void TruncateAll(ThreadState& thread, int64_t time_ns);
  void TruncateProcess(Pid pid, int64_t time_ns);
  void CountEnd(SpanEnd end);
  LabelId TimelineLabel(EventLabel label);
  bool IsOutside(const Event& event) const;
  // Whether its begin was counted and not recorded.
  bool IsOfCountedCall(const Event& end) const;

  const std::vector<Label>& labels_;
  std::optional<int64_t> window_end_ns_;
  absl::flat_hash_map<uint64_t, std::vector<DemotedOperator>> demoted_;  // by pid and site
  TimelineBuilder* timeline_;
  Ledger* ledger_;
  std::function<InputsId(InputsId)> last_input_;
  MemoryTracker memory_;
  ForwardLinks forward_links_;
  absl::Status column_status_;  // of what Close() adds beside a span
  std::vector<std::optional<LabelId>> label_ids_;
  std::optional<LabelId> unnamed_label_;
  // By pid << 32 | tid: ordered, so that what ends them all does it the same each time.
  absl::btree_map<uint64_t, std::unique_ptr<ThreadState>> threads_;
  ThreadState* last_thread_ = nullptr;
  Outliving outliving_;
  Outliving outliving_before_;  // set aside before those
  int64_t last_ns_ = 0;
  uint64_t rows_of_cut_paths_ = 0;
};

}  // namespace proftrace
