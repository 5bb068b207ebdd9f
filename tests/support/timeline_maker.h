// Makes Timelines for tests and benchmarks: by hand, a span at a time, or big ones of the shape of
// a training loop.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "userspace/model/timeline.h"

namespace proftrace {

// Spans by hand. Begin() and End() nest on each thread; times are nanoseconds and must not fall on
// a thread. The parent, depth, path, self time and child count are filled in as merge::SpanBuilder
// does, and the ledger is kept.
class TimelineMaker {
 public:
  TimelineMaker();

  ThreadIndex AddThread(uint32_t pid, uint32_t tid, const std::string& name);
  LabelId AddLabel(const Label& label);
  LabelId AddOperator(const std::string& name, const std::string& overload_name = "");
  LabelId AddAnnotation(const std::string& name);

  SpanId Begin(ThreadIndex thread, LabelId label, int64_t start_ns);
  // Ends the innermost open span of the thread.
  void End(ThreadIndex thread, int64_t end_ns, SpanEnd end = SpanEnd::kReturn);
  // Ends a span that others, begun later, outlive.
  void EndOuter(ThreadIndex thread, SpanId span, int64_t end_ns);
  // A span without children.
  SpanId Add(ThreadIndex thread, LabelId label, int64_t start_ns, int64_t end_ns,
             SpanEnd end = SpanEnd::kReturn);
  void MarkAsync(SpanId span);  // it ends on another thread
  absl::Status SetMemory(SpanId span, const SpanMemory& memory) {
    return builder_.columns().memory.Set(span, memory);
  }
  absl::Status SetSequence(SpanId span, const SpanSequence& sequence) {
    return builder_.columns().sequence.Set(span, sequence);
  }
  // Inputs of tensors of these shapes ("[[3, 4], []]").
  absl::Status SetShapes(SpanId span, const std::string& shapes);
  absl::Status SetInputs(SpanId span, const OperatorInputs& inputs);
  // A function; its index. Frames of it, the caller's frame and the instruction make a stack.
  uint32_t AddCode(const PythonCode& code);
  uint32_t AddCode(const std::string& file, const std::string& name, int32_t first_line);
  // 1 + the index of the module, as in PythonFrame.
  uint32_t AddModule(const PythonModule& module);
  // The same frame for the same caller, code, instruction and module. The line is the function's
  // first plus `instruction`.
  StackId AddFrame(StackId caller, uint32_t code, uint32_t instruction = 0, uint32_t module = 0);
  absl::Status SetStack(SpanId span, StackId stack) {
    return builder_.columns().stack.Set(span, stack);
  }
  // A kernel that `asker`, and the annotation around it, asked for by the row `call`, if any,
  // recorded by a GPU agent.
  absl::Status AddKernel(SpanId asker, const std::string& name, int64_t start_ns,
                         int64_t duration_ns, SpanId call = kNoSpan);
  void SetSamples(Samples samples) { builder_.SetSamples(std::move(samples)); }
  // Adds an event; they must come in order of their start. Returns its index. `around` and `span`
  // are taken as given, and its kind is recorded from now on.
  uint32_t AddSystemEvent(const SystemEvent& event);
  SystemFileId AddSystemFile(SystemFileKind kind, const std::string& name);
  SystemPathsId AddSystemPaths(const SystemPaths& paths);
  absl::Status AddMemoryEvent(const MemoryEvent& event) { return builder_.AddMemoryEvent(event); }

  RecordingInfo& info() { return info_; }
  Ledger& ledger() { return ledger_; }
  std::unique_ptr<Timeline> Finish();

 private:
  struct Open {
    SpanId span;
    SpanId visible;  // the parent of what begins in it: another one when it was finished
    int64_t children_ns;
    bool parent_is_over;
  };

  void Close(ThreadIndex thread, size_t position, int64_t end_ns, SpanEnd end);

  TimelineBuilder builder_;
  std::vector<std::vector<Open>> open_;  // by thread
  std::vector<OperatorInputs> inputs_ = {OperatorInputs()};
  std::map<std::array<uint32_t, 4>, StackId> frame_ids_;  // by caller, code, instruction, module
  std::vector<PythonFrame> frames_ = std::vector<PythonFrame>(1);
  std::vector<PythonCode> codes_;
  std::vector<PythonModule> modules_;
  SystemRows system_;
  RecordingInfo info_;
  Ledger ledger_;
};

// About `spans` spans of a training loop on `threads` threads: steps, nested operators with real
// names, backward.
std::unique_ptr<Timeline> MakeTrainingTimeline(uint32_t spans, uint32_t threads);

}  // namespace proftrace
