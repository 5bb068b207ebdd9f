#include "userspace/aggregate/frame_tree.h"

#include <string>
#include <string_view>

namespace proftrace {
namespace {

// Returns whether the code is record_function().__enter__() or a function that it calls.
bool BeginsAnnotations(const PythonCode& code) {
  for (const std::string_view file : {"torch/autograd/profiler.py", "torch/_ops.py"}) {
    if (code.file == file || code.file.ends_with("/" + std::string(file))) return true;
  }
  return false;
}

}  // namespace

FrameTree::FrameTree(const Timeline& timeline) : timeline_(timeline) {
  for (const PythonCode& code : timeline.python_codes()) {
    begins_annotations_.push_back(BeginsAnnotations(code));
  }
}

StackId FrameTree::Common(StackId a, StackId b) const {
  while (at(a).depth > at(b).depth) a = at(a).parent;
  while (at(b).depth > at(a).depth) b = at(b).parent;
  while (a != b) {
    if (at(a).parent == at(b).parent) return AreOne(a, b) ? a : at(a).parent;
    a = at(a).parent;
    b = at(b).parent;
  }
  return a;
}

StackId FrameTree::Shown(SpanId id) const {
  StackId frame = timeline_.stack_of(id);
  if (frame == kNoStack) return frame;
  if (timeline_.label(timeline_.span(id).label).kind != SpanKind::kAnnotation) return frame;
  while (frame != kNoStack && begins_annotations_[at(frame).code]) frame = at(frame).parent;
  return frame;
}

}  // namespace proftrace
