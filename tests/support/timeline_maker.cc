#include "tests/support/timeline_maker.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <utility>

#include "userspace/merge/call_tree.h"

namespace proftrace {
namespace {

constexpr int64_t kWindowStartNs = 5'000'000'000;
constexpr int64_t kMonotonicToUnixNs = 1'790'000'000'000'000'000;

// A wrong test program is ended, so that it cannot pass.
void Require(bool condition, const char* what) {
  if (condition) return;
  std::cerr << "TimelineMaker: " << what << "\n";
  std::abort();
}

}  // namespace

TimelineMaker::TimelineMaker() : builder_("") {
  info_.proftrace_version = "0.0.0-test";
  info_.host = {"testhost", "6.1.0-test", 2};
  info_.trace_name = "test";
  info_.window.start_ns = kWindowStartNs;
  info_.window.duration_ns = 1'000'000'000;
  info_.window.monotonic_to_unix_ns = kMonotonicToUnixNs;
  info_.cost = {0.25, 1000, 650.0, 1.5, "calibrated on this host"};
}

ThreadIndex TimelineMaker::AddThread(uint32_t pid, uint32_t tid, const std::string& name) {
  open_.emplace_back();
  const bool is_known = std::any_of(info_.targets.begin(), info_.targets.end(),
                                    [&](const Target& target) { return Raw(target.pid) == pid; });
  if (!is_known) {
    Target target;
    target.pid = Pid{pid};
    target.comm = name;
    info_.targets.push_back(target);
  }
  return builder_.AddThread(Pid{pid}, Tid{tid}, name);
}

LabelId TimelineMaker::AddLabel(const Label& label) { return builder_.InternLabel(label); }

LabelId TimelineMaker::AddOperator(const std::string& name, const std::string& overload_name) {
  return AddLabel({name, overload_name, Category::kCpuOp, Scope::kFunction, SpanKind::kOperator});
}

LabelId TimelineMaker::AddAnnotation(const std::string& name) {
  return AddLabel({name, "", Category::kUserAnnotation, Scope::kUserScope, SpanKind::kAnnotation});
}

SpanId TimelineMaker::Begin(ThreadIndex thread, LabelId label, int64_t start_ns) {
  std::vector<Open>& stack = open_[Raw(thread)];
  Span span;
  span.start_ns = start_ns;
  span.label = label;
  span.thread = thread;
  PathId parent_path = kRootPath;
  if (!stack.empty()) span.parent = stack.back().visible;
  if (span.parent != kNoSpan) {
    Span& parent = builder_.span(span.parent);
    if (parent.child_count < std::numeric_limits<uint16_t>::max()) ++parent.child_count;
    span.depth = static_cast<uint16_t>(parent.depth + 1);
    parent_path = parent.path;
  }
  span.path = builder_.InternPath(parent_path, label);
  const absl::StatusOr<SpanId> id = builder_.AddSpan(span);
  Require(id.ok(), "the span store is full");
  stack.push_back({*id, *id, 0, false});
  ++ledger_.begins;
  ledger_.records += 2;
  ledger_.decoded += 2;
  return *id;
}

void TimelineMaker::End(ThreadIndex thread, int64_t end_ns, SpanEnd end) {
  Require(!open_[Raw(thread)].empty(), "nothing to end");
  Close(thread, open_[Raw(thread)].size() - 1, end_ns, end);
}

void TimelineMaker::EndOuter(ThreadIndex thread, SpanId span, int64_t end_ns) {
  std::vector<Open>& stack = open_[Raw(thread)];
  for (size_t i = 0; i < stack.size(); ++i) {
    if (stack[i].span != span) continue;
    const bool was_finished = stack[i].visible != span;
    const SpanId below = i == 0 ? kNoSpan : stack[i - 1].visible;
    for (size_t above = i + 1; above < stack.size(); ++above) {
      if (!was_finished) stack[above].visible = below;
      Span& child = builder_.span(stack[above].span);
      if (child.parent != span || stack[above].parent_is_over) continue;
      child.overlaps = true;
      stack[above].parent_is_over = true;
      stack[i].children_ns += end_ns - child.start_ns;
      ++ledger_.partial_overlap;
    }
    Close(thread, i, end_ns, SpanEnd::kReturn);
    return;
  }
  Require(false, "the span is not open");
}

void TimelineMaker::Close(ThreadIndex thread, size_t position, int64_t end_ns, SpanEnd end) {
  std::vector<Open>& stack = open_[Raw(thread)];
  const Open open = stack[position];
  stack.erase(stack.begin() + static_cast<ptrdiff_t>(position));
  Span& span = builder_.span(open.span);
  span.end = end;
  span.duration_ns = end_ns - span.start_ns;
  span.self_ns = std::max<int64_t>(0, span.duration_ns - open.children_ns);
  Require(span.duration_ns >= 0, "the end is before the start");
  if (end == SpanEnd::kReturn) ++ledger_.closed;
  if (end == SpanEnd::kException) ++ledger_.end_by_exception;
  if (end == SpanEnd::kTruncated) ++ledger_.truncated;
  if (end == SpanEnd::kLost) ++ledger_.end_lost;
  if (open.parent_is_over) return;
  for (size_t i = position; i-- > 0;) {
    if (stack[i].span == span.parent) stack[i].children_ns += span.duration_ns;
  }
}

SpanId TimelineMaker::Add(ThreadIndex thread, LabelId label, int64_t start_ns, int64_t end_ns,
                          SpanEnd end) {
  const SpanId span = Begin(thread, label, start_ns);
  End(thread, end_ns, end);
  return span;
}

void TimelineMaker::MarkAsync(SpanId span) {
  builder_.span(span).is_async = builder_.span(span).ended_elsewhere = true;
}

absl::Status TimelineMaker::SetShapes(SpanId span, const std::string& shapes) {
  return SetInputs(span,
                   OperatorInputs{shapes, shapes, "[\"float\", \"\"]", shapes, "[\"\", \"\"]"});
}

absl::Status TimelineMaker::SetInputs(SpanId span, const OperatorInputs& inputs) {
  const InputsId id{static_cast<uint32_t>(inputs_.size())};
  inputs_.push_back(inputs);
  return builder_.columns().inputs.Set(span, id);
}

uint32_t TimelineMaker::AddCode(const PythonCode& code) {
  codes_.push_back(code);
  return static_cast<uint32_t>(codes_.size() - 1);
}

uint32_t TimelineMaker::AddCode(const std::string& file, const std::string& name,
                                int32_t first_line) {
  PythonCode code;
  code.file = file;
  code.name = code.qualified_name = name;
  code.first_line = first_line;
  return AddCode(code);
}

uint32_t TimelineMaker::AddModule(const PythonModule& module) {
  modules_.push_back(module);
  return static_cast<uint32_t>(modules_.size());
}

StackId TimelineMaker::AddFrame(StackId caller, uint32_t code, uint32_t instruction,
                                uint32_t module) {
  for (Target& target : info_.targets) target.stacks_recorded = true;
  const auto [it, inserted] = frame_ids_.try_emplace(
      {Raw(caller), code, instruction, module}, StackId{static_cast<uint32_t>(frames_.size())});
  if (!inserted) return it->second;
  PythonFrame frame;
  frame.parent = caller;
  frame.code = code;
  frame.instruction = instruction;
  frame.line = codes_[code].first_line + static_cast<int32_t>(instruction);
  frame.module = module;
  frame.depth = frames_[Raw(caller)].depth + 1;
  frames_.push_back(frame);
  return it->second;
}

absl::Status TimelineMaker::AddKernel(SpanId asker, const std::string& name, int64_t start_ns,
                                      int64_t duration_ns, SpanId call) {
  if (info_.gpu_agents.empty()) info_.gpu_agents.emplace_back();
  DeviceActivity kernel;
  kernel.op = asker;
  kernel.call = call;
  for (SpanId at = asker; at != kNoSpan; at = builder_.span(at).parent) {
    if (builder_.label(builder_.span(at).label).category != Category::kUserAnnotation) continue;
    kernel.annotation = at;
    break;
  }
  kernel.kernel = builder_.kernel_count();
  kernel.name = builder_.InternDeviceName(name);
  kernel.start_ns = start_ns;
  kernel.duration_ns = duration_ns;
  if (absl::Status status = builder_.AddKernel({}); !status.ok()) return status;
  return builder_.AddDeviceActivity(kernel);
}

uint32_t TimelineMaker::AddSystemEvent(const SystemEvent& event) {
  SystemActivities& recorded = info_.system;
  if (event.kind == SystemKind::kCall) recorded.calls = true;
  if (event.kind == SystemKind::kOffCpu) recorded.sched = true;
  if (event.kind == SystemKind::kFault) recorded.faults = true;
  if (event.kind == SystemKind::kRequest) recorded.io = true;
  if (system_.events == nullptr) {
    system_.events = std::make_unique<SystemEventStore>("", size_t{64} << 20);
  }
  Require(system_.events->Append(event).ok(), "the store of system events is full");
  return system_.events->size() - 1;
}

SystemFileId TimelineMaker::AddSystemFile(SystemFileKind kind, const std::string& name) {
  system_.files.push_back(SystemFile{kind, name});
  return SystemFileId{static_cast<uint32_t>(system_.files.size() - 1)};
}

SystemPathsId TimelineMaker::AddSystemPaths(const SystemPaths& paths) {
  system_.paths.push_back(paths);
  return SystemPathsId{static_cast<uint32_t>(system_.paths.size() - 1)};
}

std::unique_ptr<Timeline> TimelineMaker::Finish() {
  for (const std::vector<Open>& stack : open_) Require(stack.empty(), "a span is still open");
  Require(BuildCallTree(&builder_).ok(), "the tree cannot be spilled");
  builder_.SetInputs(std::move(inputs_));
  builder_.SetSystem(std::move(system_));
  builder_.SetStacks(std::move(frames_), std::move(codes_), std::move(modules_));
  return builder_.Finish(std::move(info_), ledger_);
}

std::unique_ptr<Timeline> MakeTrainingTimeline(uint32_t spans, uint32_t threads) {
  TimelineMaker maker;
  std::vector<ThreadIndex> thread_ids;
  for (uint32_t i = 0; i < threads; ++i) {
    thread_ids.push_back(maker.AddThread(4711, 4711 + i, i == 0 ? "python3" : "pt_autograd_0"));
  }
  const LabelId linear = maker.AddOperator("aten::linear");
  const LabelId transpose_t = maker.AddOperator("aten::t");
  const LabelId transpose = maker.AddOperator("aten::transpose", "int");
  const LabelId as_strided = maker.AddOperator("aten::as_strided");
  const LabelId addmm = maker.AddOperator("aten::addmm");
  const LabelId relu = maker.AddOperator("aten::relu");
  const LabelId clamp_min = maker.AddOperator("aten::clamp_min");
  const LabelId attention = maker.AddOperator("aten::scaled_dot_product_attention");
  const LabelId evaluate =
      maker.AddLabel({"autograd::engine::evaluate_function: AddmmBackward0", "", Category::kCpuOp,
                      Scope::kFunction, SpanKind::kAutograd});
  const LabelId node = maker.AddLabel(
      {"AddmmBackward0", "", Category::kCpuOp, Scope::kBackwardFunction, SpanKind::kAutograd});
  const LabelId optimizer = maker.AddAnnotation("Optimizer.step#Adam.step");

  int64_t now_ns = kWindowStartNs;
  uint32_t made = 0;
  for (uint32_t step = 0; made < spans; ++step) {
    const ThreadIndex thread = thread_ids[step % thread_ids.size()];
    const auto leaf = [&](LabelId label, int64_t ns) {
      maker.Add(thread, label, now_ns, now_ns + ns);
      now_ns += ns + 37;
      ++made;
    };
    const auto open = [&](LabelId label) {
      maker.Begin(thread, label, now_ns);
      now_ns += 211;
      ++made;
    };
    const auto close = [&] {
      maker.End(thread, now_ns);
      now_ns += 53;
    };
    for (int layer = 0; layer < 12; ++layer) {
      open(linear);
      open(transpose_t);
      open(transpose);
      leaf(as_strided, 310 + layer);
      close();
      close();
      leaf(addmm, 18'000 + 7 * layer);
      close();
      open(relu);
      leaf(clamp_min, 2'400);
      close();
      leaf(attention, 40'123);
    }
    for (int layer = 0; layer < 12; ++layer) {
      open(evaluate);
      open(node);
      leaf(addmm, 31'000);
      close();
      close();
    }
    open(optimizer);
    leaf(clamp_min, 5'000);
    close();
    now_ns += 1'000;
  }
  maker.info().window.duration_ns = now_ns - kWindowStartNs;
  return maker.Finish();
}

}  // namespace proftrace
