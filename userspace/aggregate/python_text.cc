#include "userspace/aggregate/python_text.h"

namespace proftrace {
namespace {

std::string FunctionText(const PythonCode& code, int32_t line) {
  return code.file + "(" + std::to_string(line) + "): " + code.name;
}

}  // namespace

std::string PythonFunctionText(const PythonCode& code) {
  return FunctionText(code, code.first_line);
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
  return FunctionText(timeline.python_codes()[frame.code], frame.line);
}

}  // namespace proftrace
