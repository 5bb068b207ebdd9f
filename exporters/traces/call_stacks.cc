#include "exporters/traces/call_stacks.h"

#include "exporters/sinks/escape.h"
#include "userspace/aggregate/python_text.h"

namespace proftrace {
namespace {

constexpr size_t kMostCachedBytes = size_t{32} << 20;

}  // namespace

CallStacks::CallStacks(const Timeline& timeline) : timeline_(timeline) {
  if (!timeline.columns().stack.exists()) return;
  for (uint32_t id = 0; id < timeline.python_frames().size(); ++id) {
    frames_.push_back(id == 0 ? "" : JsonEscaped(PythonFrameText(timeline, StackId{id})) + ";");
  }
  cached_.resize(frames_.size());
}

std::string_view CallStacks::OfStack(StackId stack) {
  std::string& cached = cached_[Raw(stack)];
  if (!cached.empty()) return cached;
  text_ = "\"Call stack\": \"";
  for (StackId at = stack; at != kNoStack; at = timeline_.python_frame(at).parent) {
    text_ += frames_[Raw(at)];
  }
  text_ += '"';
  if (cache_bytes_ + text_.size() > kMostCachedBytes) return text_;
  cache_bytes_ += text_.size();
  cached = text_;
  return cached;
}

std::string_view CallStacks::Of(const MemoryEvent& event) {
  if (event.stack != kNoStack && !frames_.empty()) return OfStack(event.stack);
  if (event.parent == kNoSpan) return {};
  const Span& parent = timeline_.span(event.parent);
  const bool is_annotation = timeline_.label(parent.label).kind == SpanKind::kAnnotation;
  return is_annotation ? std::string_view() : Of(event.parent);
}

}  // namespace proftrace
