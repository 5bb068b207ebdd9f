// Rebuilds nesting: events in order of time become spans with parents, per thread.
//
// A call's end is found by its site and its stack pointer, never by last-in-first-out alone, so
// that a lost or unwound end cannot give anything a wrong parent:
// - a live call's entry stack pointer is above that of everything it calls. Before a begin at stack
//   pointer s, open calls whose entry was at or below s are over (kLost); before an end, those
//   whose entry was below s.
// - at a catch at stack pointer s, open calls whose entry was at or below s were unwound
// (kException).
// - annotations and other rows with an object of their own end by the object's address, whichever
//   rows are open above them, and on any thread. They may outlive their own thread: rows that are
//   still open when their process or the recording ends are truncated where their thread ended.
// - a loss marker truncates the open rows of its thread, a gap those of all threads.
// - a call of CUDA comes from the GPU agent as one event with begin and end: its parent is the
//   innermost row that is open at its begin.
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
  bool is_shown = true;  // false: the call makes no row, but its place is needed
};

// Where a call was made.
struct CallPlace {
  SpanId row = kNoSpan;         // the call's own row, or that of the call that it is part of
  SpanId op = kNoSpan;          // the innermost row around it that is no annotation
  SpanId annotation = kNoSpan;  // the innermost annotation around it
};

class SpanBuilder {
 public:
  // The most rows that may outlive their threads. Beyond this number the older half of them is
  // truncated.
  static constexpr size_t kMostOutliving = size_t{1} << 16;

  // `labels`: the table that Event::label is an index into; it may grow between calls. Events that
  // begin after `window_end_ns` are left out.
  SpanBuilder(const std::vector<Label>& labels, std::optional<int64_t> window_end_ns,
              TimelineBuilder* timeline, Ledger* ledger);

  // Sets the function that returns, for some inputs, those with the last input alone. It is called
  // while events are added.
  void SetLastInput(std::function<InputsId(InputsId)> last) { last_input_ = std::move(last); }

  // Sets the operators whose calls were only counted from some moment on. Until the calls that were
  // open at that moment were over, ends of such an operator may have come without a begin.
  void SetDemoted(const std::vector<DemotedOperator>& demoted);

  // Adds an event. Events must come in order of time. Fails only when the timeline cannot grow.
  absl::Status Add(const Event& event);

  // Adds a call. They must come in order of their begin among each other and among the events.
  absl::StatusOr<CallPlace> AddCall(const CompleteCall& call);

  // Truncates the rows that are still open.
  absl::Status Finish();

  // Returns the number of rows deeper than kMostPathLevels.
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
    std::vector<SpanId> calls;   // rows of AddCall() that may end after the next row begins
    MemorySums memory;           // sums since the first event of the thread
    uint64_t script_frames = 0;  // frames of TorchScript that began
  };

  // The open rows that began on threads which have ended. They are kept as if each process had one
  // more thread with all these rows; the memory sums of that thread stay 0.
  struct Outliving {
    absl::btree_map<Pid, std::unique_ptr<ThreadState>> by_pid;
    size_t count = 0;
  };

  ThreadState& StateOf(Pid pid, Tid tid);
  // Opens a row. With `is_below_top`, the row is put below the innermost call, which is hidden and
  // stays on top.
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
  // Ends the row that `find` returns from the OpenFrames of another thread of the process, if there
  // is one. torch calls such a row asynchronous.
  template <typename Find>
  bool CloseElsewhere(const Event& event, Find find);
  void OnThreadExit(const Event& event, ThreadState& thread);
  // Takes a row that may end on another thread out of the thread, which ends now.
  Frame SetAside(const Event& exit, ThreadState& thread, Frame* frame);
  struct Outlived {
    Outliving* where = nullptr;  // null = none
    ThreadState* state = nullptr;
    Frame* frame = nullptr;
  };
  // Finds the frame that began last among those that `find` returns for the process.
  Outlived FindOutliving(Pid pid, absl::FunctionRef<Frame*(const OpenFrames&)> find);
  void CloseOutlived(const Outlived& outlived, int64_t time_ns, SpanEnd end);
  // Ends the rows that outlived their threads and whose object had the address at which another one
  // begins now. A frame of TorchScript may have moved instead: its row only loses its handle.
  void OnAddressTaken(const Event& begin);
  void TruncateOutliving(Outliving* outliving);
  void TruncateOutliving(Pid pid, Outliving* outliving);
  // Returns whether the label is that of the engine's row around a node, or kDistEngineName.
  bool IsEnginesLabel(EventLabel label) const;
  bool IsDistEngine(const Event& event) const;
  // Returns whether the event is a node that kDistEngineName runs, without the engine's row around
  // it.
  bool IsBareNode(const Event& event, const ThreadState& thread) const;
  // Returns whether torch makes no row of the call: the CUDA Runtime made it to do another call's
  // work, or it is a garbage collection that was requested while one runs.
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

  // Closes calls, the innermost first, as long as is_over(frame) holds. Annotations stay open.
  template <typename Predicate>
  void CloseCallsWhile(ThreadState& thread, int64_t time_ns, SpanEnd end, Predicate is_over);
  // Closes and removes the frame.
  void Close(ThreadState& thread, Frame* frame, int64_t time_ns, SpanEnd end);
  void SettleChildren(Frame* ending, int64_t time_ns);
  // Settles the calls of AddCall() in a frame, whose ends were known before that of the frame.
  void SettleCalls(const ThreadState& thread, Frame* frame, int64_t time_ns);
  // Adds a span below `parent`. Only the times and the label of `span` need to be set.
  absl::StatusOr<SpanId> AddRow(ThreadState& thread, SpanId parent, Span span);
  void TruncateAll(ThreadState& thread, int64_t time_ns);
  void TruncateProcess(Pid pid, int64_t time_ns);
  void CountEnd(SpanEnd end);
  LabelId TimelineLabel(EventLabel label);
  bool IsOutside(const Event& event) const;
  // Returns whether the begin of the call that this event ends was counted and not recorded.
  bool IsOfCountedCall(const Event& end) const;

  const std::vector<Label>& labels_;
  std::optional<int64_t> window_end_ns_;
  absl::flat_hash_map<uint64_t, std::vector<DemotedOperator>> demoted_;  // by pid and site
  TimelineBuilder* timeline_;
  Ledger* ledger_;
  std::function<InputsId(InputsId)> last_input_;
  MemoryTracker memory_;
  ForwardLinks forward_links_;
  absl::Status column_status_;  // of the column items that Close() sets
  std::vector<std::optional<LabelId>> label_ids_;
  std::optional<LabelId> unnamed_label_;
  // By pid << 32 | tid. Ordered, so that rows of all threads end in the same order in each run.
  absl::btree_map<uint64_t, std::unique_ptr<ThreadState>> threads_;
  ThreadState* last_thread_ = nullptr;
  Outliving outliving_;
  Outliving outliving_before_;  // rows that were set aside before those of `outliving_`
  int64_t last_ns_ = 0;
  uint64_t rows_of_cut_paths_ = 0;
};

}  // namespace proftrace
