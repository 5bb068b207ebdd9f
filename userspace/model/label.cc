#include "userspace/model/label.h"

namespace proftrace {

std::string_view CategoryName(Category category) {
  switch (category) {
    case Category::kCpuOp:
      return "cpu_op";
    case Category::kUserAnnotation:
      return "user_annotation";
    case Category::kCudaRuntime:
      return "cuda_runtime";
    case Category::kCudaDriver:
      return "cuda_driver";
    case Category::kPythonFunction:
      return "python_function";
  }
  return "unknown";
}

std::string_view ScopeName(Scope scope) {
  switch (scope) {
    case Scope::kFunction:
      return "FUNCTION";
    case Scope::kBackwardFunction:
      return "BACKWARD_FUNCTION";
    case Scope::kTorchScriptFunction:
      return "TORCHSCRIPT_FUNCTION";
    case Scope::kKernelFunctionDtype:
      return "KERNEL_FUNCTION_DTYPE";
    case Scope::kCustomClass:
      return "CUSTOM_CLASS";
    case Scope::kBuildFeature:
      return "BUILD_FEATURE";
    case Scope::kLiteInterpreter:
      return "LITE_INTERPRETER";
    case Scope::kUserScope:
      return "USER_SCOPE";
    case Scope::kStaticRuntimeOp:
      return "STATIC_RUNTIME_OP";
    case Scope::kStaticRuntimeModel:
      return "STATIC_RUNTIME_MODEL";
  }
  return "UNKNOWN";
}

}  // namespace proftrace
