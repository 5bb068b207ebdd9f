// A label is the name and the kind of a span. It is interned, so that a span holds four bytes of
// it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace proftrace {

// Kineto's category of a row (libkineto ActivityType). New values are only ever appended.
enum class Category : uint8_t {
  kCpuOp = 0,
  kUserAnnotation = 1,
  kCudaRuntime = 2,
  kCudaDriver = 3,
  kPythonFunction = 4,
};

// torch's at::RecordScope, with its values (aten/src/ATen/record_function.h).
enum class Scope : uint8_t {
  kFunction = 0,
  kBackwardFunction = 1,
  kTorchScriptFunction = 2,
  kKernelFunctionDtype = 3,
  kCustomClass = 4,
  kBuildFeature = 5,
  kLiteInterpreter = 6,
  kUserScope = 7,
  kStaticRuntimeOp = 8,
  kStaticRuntimeModel = 9,
};

// The kinds of spans that summary.json counts apart.
enum class SpanKind : uint8_t {
  kOperator = 0,    // a dispatcher operator (unboxed or boxed)
  kAutograd = 1,    // evaluate_function, or a node's own row
  kAnnotation = 2,  // record_function and friends
  kRuntime = 3,     // a call of the CUDA Runtime or Driver
  kCollection = 4,  // Python's garbage collection
};

struct Label {
  std::string name;           // as torch.profiler names the row
  std::string overload_name;  // "Tensor"; empty where there is none
  Category category = Category::kCpuOp;
  Scope scope = Scope::kFunction;
  SpanKind kind = SpanKind::kOperator;
  // torch marks the row as asynchronous even where it ends on the thread on which it began
  // (RecordFunction::_setAsync, which c10d's works use).
  bool is_async = false;

  bool operator==(const Label&) const = default;
  // For absl's hash containers.
  template <typename H>
  friend H AbslHashValue(H hash, const Label& label) {
    return H::combine(std::move(hash), label.name, label.overload_name, label.category, label.scope,
                      label.kind, label.is_async);
  }
};

// Returns whether rows of the category are calls of the CUDA Runtime or Driver.
constexpr bool IsCudaCall(Category category) {
  return category == Category::kCudaRuntime || category == Category::kCudaDriver;
}

// Returns the category in Kineto's spelling: "cpu_op", "user_annotation".
std::string_view CategoryName(Category category);
// Returns the scope in torch's spelling: "FUNCTION", "BACKWARD_FUNCTION".
std::string_view ScopeName(Scope scope);

}  // namespace proftrace
