// Rules of torch about what makes a row.
#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

namespace proftrace {

// Where distributed autograd runs nodes itself: no row, and nodes have no row of the engine's there
// (torch/csrc/distributed/autograd/engine/dist_engine.cpp).
inline constexpr std::string_view kDistEngineName = "torch::distributed::autograd::DistEngine";

// Operators that torch makes no row for (c10/core/dispatch/ObservedOperators.cpp).
inline bool IsUnobserved(std::string_view operator_name) {
  static constexpr std::string_view kNames[] = {
      "aten::size",
      "aten::is_leaf",
      "aten::output_nr",
      "aten::_version",
      "aten::is_complex",
      "profiler::_record_function_enter",
      "profiler::_record_function_enter_new",
      "profiler::_record_function_exit",
      kDistEngineName,
  };
  return std::find(std::begin(kNames), std::end(kNames), operator_name) != std::end(kNames);
}

// Rows that torch makes inside the operator of the same name, with its argument: its kernel says
// RECORD_FUNCTION("detach", {self}) (torch/csrc/autograd/VariableTypeManual.cpp).
inline bool TakesParentsInputs(std::string_view name) {
  return name == "detach" || name == "detach_";
}

// As `ostream << c10::IValue` shows a double (aten/src/ATen/core/ivalue.cpp): "1.", "0.25".
std::string FormatTorchDouble(double value);

}  // namespace proftrace
