// Rules of torch about what makes a row.
#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

namespace proftrace {

// The class in which distributed autograd runs nodes itself. torch makes no row for the class, and
// no row of the engine around such nodes (torch/csrc/distributed/autograd/engine/dist_engine.cpp).
inline constexpr std::string_view kDistEngineName = "torch::distributed::autograd::DistEngine";

// Returns whether torch makes no row for the operator (c10/core/dispatch/ObservedOperators.cpp).
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

// Returns whether a row has a name as c10d gives to its works: "nccl:all_reduce"
// (torch/csrc/distributed/c10d/ProcessGroup*.cpp).
inline bool IsTitleOfWork(std::string_view name) {
  static constexpr std::string_view kBackends[] = {"gloo:", "nccl:", "ucc:", "mpi:", "xccl:"};
  return std::any_of(std::begin(kBackends), std::end(kBackends),
                     [name](std::string_view backend) { return name.starts_with(backend); });
}

// Returns whether a GPU's kernel belongs to NCCL or RCCL:
// "ncclDevKernel_AllReduce_Sum_f32_RING_LL(…)", also behind a return type ("void ncclKernel…").
inline bool IsCommunicationKernel(std::string_view name) {
  return name.starts_with("nccl") || name.starts_with("rccl") ||
         name.find("ncclKernel") != std::string_view::npos ||
         name.find("ncclDevKernel") != std::string_view::npos;
}

// Returns whether a row only asks for a collective, or encloses a row that does.
inline bool IsCallOfCollective(std::string_view name) {
  return name == "record_param_comms" || name.starts_with("c10d::");
}

// Returns whether torch leaves the row out of events() and key_averages()
// (torch/autograd/profiler.py, _filter_name). Rows inside such a row count as children of the row
// around it.
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

// Returns whether torch makes the row inside the operator of the same name and with that operator's
// argument, because the operator's kernel says RECORD_FUNCTION("detach", {self})
// (torch/csrc/autograd/VariableTypeManual.cpp).
inline bool TakesParentsInputs(std::string_view name) {
  return name == "detach" || name == "detach_";
}

// Returns a double as `ostream << c10::IValue` shows it (aten/src/ATen/core/ivalue.cpp): "1.",
// "0.25".
std::string FormatTorchDouble(double value);

}  // namespace proftrace
