// What a row that is no whole function is called with, and where the words of that are when the row
// begins. Data flow in the code tells, which looks at them only while a profiler runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bpf/abi/records.h"
#include "symbols/x86/flow_graph.h"

namespace proftrace {

enum class RowInputKind : uint8_t {
  kNone = 0,
  kValues = 1,           // words: the address of the first c10::IValue, how many there are
  kLastValues = 2,       // words: a Stack*, how many of its last values they are
  kStack = 3,            // words: a Stack*
  kTensorVector = 4,     // words: the address of an optional std::vector<at::Tensor>
  kPythonValues = 5,     // words: a Python tuple
  kKernel = 6,           // words: as PlaceKernelArguments counts them
  kUnknown = 7,          // it has some: the code makes them only while a profiler runs
  kPythonArguments = 8,  // words: a Python tuple, each item of which is one
  kInferredValues = 9,  // words: a Python list or tuple, or null; a dict of keyword values, or null
  kTensors = 10,        // words: the address of a std::vector<at::Tensor>
};

struct RowInputs {
  RowInputKind kind = RowInputKind::kNone;
  // PT_PLACE_UNKNOWN where a word is not known; only kKernel has such words.
  std::vector<abi::pt_place> words;
  // kKernel: the operator's C++ type, demangled, where the words are not a kernel's, but those of
  // Dispatcher::callWithDispatchKeySlowPath.
  std::string type{};
  // kInferredValues: the row's scope is what the keyword "scope" says.
  bool has_keyword_scope = false;
};

// Finds the inputs of a row that begins at node `from` with an at::RecordFunction, or with the
// question whether there are callbacks for one: values that lie there already; kUnknown for others.
// nullopt: the row has no inputs. `stops`: calls of these (ascending) begin another row.
std::optional<RowInputs> FindGivenInputs(const CodeImage& image, const FlowGraph& graph,
                                         uint32_t from, const std::vector<uint64_t>& stops);

// Finds the inputs of an operator that is called with the dispatcher's code inlined: what a boxed
// kernel gets or, else, an unboxed one.
std::optional<RowInputs> FindCallInputs(const FlowGraph& graph, uint32_t from);

// Finds an argument of the function, by its hardware register, where it is at node `at`.
std::optional<abi::pt_place> FindArgument(const FlowGraph& graph, uint32_t at, unsigned argument);

}  // namespace proftrace
