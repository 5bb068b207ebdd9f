#include "userspace/aggregate/sample_text.h"

#include "userspace/aggregate/python_text.h"

namespace proftrace {

std::string SampleFunctionText(const SampleFunction& function) {
  switch (function.kind) {
    case SampleFrameKind::kPython:
      return PythonPlaceText(function.file, function.first_line, function.name);
    case SampleFrameKind::kKernel:
      return function.name + "_[k]";
    case SampleFrameKind::kNative:
      break;
  }
  if (!function.name.empty()) return function.name;
  const std::string file = function.file.substr(function.file.rfind('/') + 1);
  return "[" + (file.empty() ? "unknown" : file) + "]";
}

std::string SampleLineText(const Timeline& timeline, const SampleFrame& frame) {
  const SampleFunction& function = timeline.sample_function(frame);
  if (function.kind == SampleFrameKind::kPython && frame.line > 0) {
    return PythonPlaceText(function.file, frame.line, function.name);
  }
  return SampleFunctionText(function);
}

std::vector<std::string> SampleStackTexts(const Timeline& timeline, uint32_t frame, size_t most) {
  std::vector<std::string> texts;
  for (; frame != 0 && texts.size() < most; frame = timeline.sample_frames()[frame].parent) {
    texts.push_back(SampleLineText(timeline, timeline.sample_frames()[frame]));
  }
  return texts;
}

std::string_view SampleStateName(SampleState state) {
  switch (state) {
    case SampleState::kRunning:
      return "running";
    case SampleState::kRunnable:
      return "runnable";
    case SampleState::kSleeping:
      return "sleeping";
    case SampleState::kUninterruptible:
      return "uninterruptible";
    case SampleState::kStopped:
      break;
  }
  return "stopped";
}

}  // namespace proftrace
