// The inputs that an operator was called with, as torch.profiler (record_shapes=True) shows them:
// JSON lists with an item for each argument. Calls with equal inputs share one OperatorInputs.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace proftrace {

// A keyword value of an annotation. monostate: torch shows "NULL".
struct KeywordValue {
  std::string name;
  std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<std::string>> value;
};

struct OperatorInputs {
  std::string dims;      // Kineto's "Input Dims": [[3, 4], [], [[2], [5]]]
  std::string shapes;    // as torch's events() and tables show them: a list of tensors is []
  std::string types;     // "Input type": ["float", "Scalar", "TensorList"]
  std::string strides;   // "Input Strides"; empty: this version of torch has none
  std::string concrete;  // "Concrete Inputs": ["", "1", ""]
  // The type of the first tensor in the first list of tensors, which torch does not show. Empty:
  // there is no such tensor.
  std::string list_type;                    // "float"
  std::vector<KeywordValue> keywords = {};  // torch writes each as an item of its own
};

// An index into Timeline::inputs().
enum class InputsId : uint32_t {};
inline constexpr InputsId kNoInputs{0};  // inputs were not recorded, or torch has none for the span

constexpr uint32_t Raw(InputsId id) { return static_cast<uint32_t>(id); }

}  // namespace proftrace
