// Finds rows that torch makes outside of at::_ops::*::call, Dispatcher::callBoxed, Node::operator()
// and the autograd engine. With no profiler running a function still constructs its
// at::RecordFunction and destroys it, or still asks for callbacks: these places are probed, and the
// name is read where the code would read it if a profiler ran.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "symbols/elf/module_image.h"
#include "symbols/elf/relocated_pointers.h"
#include "symbols/torch/module_analysis.h"
#include "symbols/torch/row_inputs.h"
#include "symbols/x86/call_scan.h"
#include "symbols/x86/flow_graph.h"
#include "symbols/x86/value_walk.h"

namespace proftrace {

// Addresses of functions and of their PLT stubs and GOT slots, ascending.
struct RowTargets {
  std::vector<uint64_t> step_callbacks;     // at::getStepCallbacksUnlessEmpty
  std::vector<uint64_t> constructors;       // at::RecordFunction(RecordScope)
  std::vector<uint64_t> step_constructors;  // at::RecordFunction(StepCallbacks&&)
  std::vector<uint64_t> ends;               // ~RecordFunction, RecordFunction::end
  std::vector<uint64_t> engine;  // Engine::evaluate_function, which has probes of its own
};

// Finds the place of the OperatorDef* at `from`, the call of getStepCallbacksUnlessEmpty in the
// inlined dispatcher. The operator is the object whose is-observed flag the code tests where there
// are callbacks.
std::optional<abi::pt_place> FindCalledOperator(const FlowGraph& graph, uint32_t from);

// Finds the inputs of a Python context: the members of its object (in rdi at the entry) that the
// code reads as a sequence and as a dict. Where the scope that the code gives the constructor is
// not always that of functions, a keyword sets the scope.
RowInputs FindContextInputs(const FlowGraph& graph, const std::vector<uint64_t>& constructors);

// The arguments, by hardware number, of a function that makes the row of an asynchronous work of
// c10d.
struct WorkArguments {
  unsigned title = 0;
  unsigned tensors = 0;  // std::optional<std::vector<at::Tensor>> const&
  // The work is made on one thread, and its row begins on the thread that executes it
  bool is_later = false;
};

// The kind of a function that has no name in its file, by the at::RecordFunction of the user's
// scope that it makes on the heap. Gloo's works are made by std::make_shared, annotations as
// members of one of torch's own classes.
enum class NamelessMaker : uint8_t { kNeither, kAnnotation, kGlooWork };
NamelessMaker KindOfNameless(const CodeImage& image, const FlowGraph& graph,
                             const std::vector<uint64_t>& constructors);

// Adds to `facts` the rows that the file's functions make, their ends, and gaps.
class RowMakerSearch {
 public:
  // Leaves out functions, with one gap, when `limit_ns` of the thread's processor time are used up.
  RowMakerSearch(const ModuleImage& image, const RowTargets& targets,
                 const std::vector<CallSite>& calls, int64_t limit_ns, ModuleFacts* facts);

  // Adds the class behind Python's torch._C._profiler._RecordFunctionFast.
  void AddFastContexts();
  // Adds the rows of all other functions with an at::RecordFunction of their own.
  void AddGuards();
  // Adds the rows of a caller of getStepCallbacksUnlessEmpty that is not one of the dispatcher's
  // functions. Returns false where one of its calls is not understood.
  bool AddCaller(const FunctionRange& function);

  // Whether functions were left out.
  bool is_cut() const { return is_cut_; }

 private:
  struct Function {
    FunctionRange range;
    std::vector<CallSite> calls;  // to any target
  };

  std::optional<Value> NamesFunctionReturn(int64_t offset);
  absl::StatusOr<FlowGraph> Graph(const FunctionRange& range) const;
  void AddGuardsOf(const Function& function);
  NamelessMaker KindOf(const Function& function) const;
  void AddAnnotationGuards(const Function& function);
  void AddGuardEnds();
  void AddWork(const Function& function, const WorkArguments& arguments);
  std::optional<RowProbe> GroupCallProbe(std::string_view name, uint64_t at) const;
  std::vector<RowProbe> FindWorkProbes() const;
  bool AddOperatorCall(const FunctionRange& function, const FlowGraph& graph, uint32_t call);
  bool AddNodeCall(const FunctionRange& function, const FlowGraph& graph, uint32_t call);
  bool AddPlaced(const FunctionRange& function, const FlowGraph& graph, uint32_t call,
                 RowProbe begin);
  bool AddNamedCall(const FunctionRange& function, const FlowGraph& graph, uint32_t call);
  bool AddFrames(const FunctionRange& function, const FlowGraph& graph, uint32_t call);
  void AddFrameEnds(const FunctionRange& function, int64_t slot_offset, uint64_t code_offset);
  std::optional<RowProbe> Probe(uint64_t address, uint8_t role, uint8_t reg, int64_t offset) const;
  bool Calls(const Function& function, const std::vector<uint64_t>& targets) const;
  bool HasOtherProbes(const FunctionRange& range) const;
  void AddGap(std::string feature, std::string reason);
  // Whether the time is used up; adds a gap the first time.
  bool IsTimeUp();

  const ModuleImage& image_;
  const RowTargets& targets_;
  std::vector<Function> functions_;  // functions with a call to any target, ascending
  std::set<uint64_t> contexts_;      // functions that AddFastContexts has taken
  ModuleFacts* facts_;
  const int64_t deadline_ns_;
  bool is_cut_ = false;
  // The file's relocations; read when they are first needed
  std::vector<RelocatedPointer> pointers_;
};

}  // namespace proftrace
