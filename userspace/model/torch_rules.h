// Rules of torch about what makes a row.
#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

namespace proftrace {

// The class in which distributed autograd runs nodes itself: it is no row, and nodes have no row of
// the engine's there (torch/csrc/distributed/autograd/engine/dist_engine.cpp).
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

// Whether a row with an object of its own is named as c10d names its works: "nccl:all_reduce"
// (torch/csrc/distributed/c10d/ProcessGroup*.cpp).
inline bool IsTitleOfWork(std::string_view name) {
  static constexpr std::string_view kBackends[] = {"gloo:", "nccl:", "ucc:", "mpi:", "xccl:"};
  return std::any_of(std::begin(kBackends), std::end(kBackends),
                     [name](std::string_view backend) { return name.starts_with(backend); });
}

// Whether a GPU's kernel is NCCL's or RCCL's: "ncclDevKernel_AllReduce_Sum_f32_RING_LL(…)", also
// behind a return type ("void ncclKernel…").
inline bool IsCommunicationKernel(std::string_view name) {
  return name.starts_with("nccl") || name.starts_with("rccl") ||
         name.find("ncclKernel") != std::string_view::npos ||
         name.find("ncclDevKernel") != std::string_view::npos;
}

// Whether a row only asks for a collective, or stands around what does.
inline bool IsCallOfCollective(std::string_view name) {
  return name == "record_param_comms" || name.starts_with("c10d::");
}

// Rows that events() and key_averages() do not have (torch/autograd/profiler.py, _filter_name):
// what they enclose belongs to what is around them.
inline bool IsLeftOutOfEvents(std::string_view name) {
  static constexpr std::string_view kNames[] = {
      "[memory]",
      "[OutOfMemory]",
      "profiler::_record_function_enter",
      "profiler::_record_function_enter_new",
      "profiler::_record_function_exit",
      "aten::is_leaf",
      "aten::output_nr",
      "aten::_version",
  };
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

// Rows that torch makes inside the operator of the same name, with its argument: its kernel says
// RECORD_FUNCTION("detach", {self}) (torch/csrc/autograd/VariableTypeManual.cpp).
inline bool TakesParentsInputs(std::string_view name) {
  return name == "detach" || name == "detach_";
}

// Returns a double as `ostream << c10::IValue` shows it (aten/src/ATen/core/ivalue.cpp): "1.",
// "0.25".
std::string FormatTorchDouble(double value);

}  // namespace proftrace
