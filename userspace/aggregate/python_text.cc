#include "userspace/aggregate/python_text.h"

namespace proftrace {
namespace {

std::string FrameText(const Timeline& timeline, StackId frame, int32_t line) {
  if (const PythonModule* module = PythonModuleOf(timeline, frame); module != nullptr) {
    return "nn.Module: " + PythonModuleText(*module);
  }
  const PythonCode& code = timeline.python_codes()[timeline.python_frame(frame).code];
  return code.file + "(" + std::to_string(line != 0 ? line : code.first_line) + "): " + code.name;
}

}  // namespace

std::string PythonFunctionText(const Timeline& timeline, StackId frame) {
  return FrameText(timeline, frame, 0);
}

std::string PythonLineText(const Timeline& timeline, StackId frame) {
  return FrameText(timeline, frame, timeline.python_frame(frame).line);
}

std::string PythonModuleText(const PythonModule& module) {
  return module.class_name + "_" + std::to_string(module.number);
}

const PythonModule* PythonModuleOf(const Timeline& timeline, StackId frame) {
  const uint32_t module = timeline.python_frame(frame).module;
  return module == 0 ? nullptr : &timeline.python_modules()[module - 1];
}

}  // namespace proftrace
