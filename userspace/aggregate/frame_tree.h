// Answers questions about the frames of a Timeline's Python stacks.
#pragma once

#include <vector>

#include "userspace/model/timeline.h"

namespace proftrace {

class FrameTree {
 public:
  // `timeline` must outlive this.
  explicit FrameTree(const Timeline& timeline);

  const PythonFrame& at(StackId id) const { return timeline_.python_frame(id); }

  // Returns whether two frames with the same caller are one activation of a function, in which
  // other instructions may run.
  bool AreOne(StackId a, StackId b) const {
    return at(a).code == at(b).code && at(a).module == at(b).module;
  }

  // Returns the innermost frame of `a` whose activation is also in `b`.
  StackId Common(StackId a, StackId b) const;

  // Returns the stack that a span shows. For an annotation this leaves out torch's functions in
  // which it begins, because they return while the annotation is open.
  StackId Shown(SpanId id) const;

 private:
  const Timeline& timeline_;
  std::vector<bool> begins_annotations_;  // by code
};

}  // namespace proftrace
