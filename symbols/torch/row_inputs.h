// Finds the inputs of a row that is only a part of a function: the places of their words when the
// row begins. The code itself looks at the inputs only while a profiler runs, so that they are
// found by its data flow.
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
  kKernel = 6,           // words: in the order of PlaceKernelArguments()
  kUnknown = 7,          // the row has inputs, but the code makes them only while a profiler runs
  kPythonArguments = 8,  // words: a Python tuple, each item of which is an input
  kInferredValues = 9,  // words: a Python list or tuple, or null; a dict of keyword values, or null
  kTensors = 10,        // words: the address of a std::vector<at::Tensor>
};

struct RowInputs {
  RowInputKind kind = RowInputKind::kNone;
  // PT_PLACE_UNKNOWN where a word is not known; only kKernel has such words.
  std::vector<abi::pt_place> words;
  // Only for kKernel: the operator's C++ type, demangled, where the words are those of
  // Dispatcher::callWithDispatchKeySlowPath instead of a kernel.
  std::string type{};
  // Only for kInferredValues: whether the keyword "scope" gives the row's scope.
  bool has_keyword_scope = false;
};

// Finds the inputs of a row that begins at node `from`, where an at::RecordFunction is made or the
// code asks for callbacks. Finds values that exist already at that node; the result is kUnknown for
// other inputs. nullopt: the row has no inputs. `stops`: addresses (ascending) of functions whose
// calls begin another row.
std::optional<RowInputs> FindGivenInputs(const CodeImage& image, const FlowGraph& graph,
                                         uint32_t from, const std::vector<uint64_t>& stops);

// Finds the inputs of an operator that is called with the dispatcher's code inlined: the arguments
// of its unboxed kernel or, if there is no such call, of its boxed kernel.
std::optional<RowInputs> FindCallInputs(const FlowGraph& graph, uint32_t from);

// Finds the place at node `at` of an argument of the function. `argument`: the hardware number of
// its register at the entry.
std::optional<abi::pt_place> FindArgument(const FlowGraph& graph, uint32_t at, unsigned argument);

}  // namespace proftrace
