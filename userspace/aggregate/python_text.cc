#include "userspace/aggregate/python_text.h"

namespace proftrace {

std::string PythonPlaceText(const std::string& file, int32_t line, const std::string& name) {
  return file + "(" + std::to_string(line) + "): " + name;
}

std::string PythonFunctionText(const PythonCode& code) {
  return PythonPlaceText(code.file, code.first_line, code.name);
}

std::string PythonModuleText(const PythonModule& module) {
  return module.class_name + "_" + std::to_string(module.number);
}

std::string PythonModuleCallText(const PythonModule& module) {
  return "nn.Module: " + PythonModuleText(module);
}

std::string PythonFrameText(const Timeline& timeline, StackId id) {
  const PythonFrame& frame = timeline.python_frame(id);
  if (frame.module != 0) {
    return PythonModuleCallText(timeline.python_modules()[frame.module - 1]);
  }
  return PythonFunctionText(timeline.python_codes()[frame.code]);
}

std::string PythonLineText(const Timeline& timeline, StackId id) {
  const PythonFrame& frame = timeline.python_frame(id);
  if (frame.module != 0 || frame.line == 0) return PythonFrameText(timeline, id);
  const PythonCode& code = timeline.python_codes()[frame.code];
  return PythonPlaceText(code.file, frame.line, code.name);
}

}  // namespace proftrace
