// The inputs that an operator was called with, as torch.profiler (record_shapes=True) shows them:
// JSON lists with an item an argument. Calls with equal inputs share one.
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
  std::string shapes;    // as events() and tables have them, where a list of tensors is []
  std::string types;     // "Input type": ["float", "Scalar", "TensorList"]
  std::string strides;   // "Input Strides"; empty: this version of torch has none
  std::string concrete;  // "Concrete Inputs": ["", "1", ""]
  // The type of the first tensor in the first list of tensors; torch shows none. Empty: there is
  // none.
  std::string list_type;                    // "float"
  std::vector<KeywordValue> keywords = {};  // what torch writes as items of their own
};

// An index into Timeline::inputs().
enum class InputsId : uint32_t {};
inline constexpr InputsId kNoInputs{0};  // inputs were not recorded, or torch has none for the span

constexpr uint32_t Raw(InputsId id) { return static_cast<uint32_t>(id); }

}  // namespace proftrace
