// Rows that torch makes outside at::_ops::*::call, Dispatcher::callBoxed, Node::operator() and the
// autograd engine. With no profiler running a function still constructs its at::RecordFunction and
// destroys it, or still asks for callbacks: these places are probed, and the name is read where the
// code would read it if a profiler ran.
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

// Ascending addresses of functions, of their stubs and slots.
struct RowTargets {
  std::vector<uint64_t> step_callbacks;     // at::getStepCallbacksUnlessEmpty
  std::vector<uint64_t> constructors;       // at::RecordFunction(RecordScope)
  std::vector<uint64_t> step_constructors;  // at::RecordFunction(StepCallbacks&&)
  std::vector<uint64_t> ends;               // ~RecordFunction, RecordFunction::end
  std::vector<uint64_t> engine;             // Engine::evaluate_function: has probes of its own
};

// Finds where the OperatorDef* is at the call `from` to getStepCallbacksUnlessEmpty that the
// inlined dispatcher makes: the code tests its is-observed flag when there are callbacks.
std::optional<abi::pt_place> FindCalledOperator(const FlowGraph& graph, uint32_t from);

// What a context of Python's is called with: the members of its object (rdi at the entry) that the
// code looks through as a sequence and as a dict. Where the scope that it gives the constructor is
// not always that of functions, a keyword tells it.
RowInputs FindContextInputs(const FlowGraph& graph, const std::vector<uint64_t>& constructors);

// c10d's asynchronous works: the arguments (by hardware number) that are the title of their row and
// its inputs.
struct WorkArguments {
  unsigned title = 0;
  unsigned tensors = 0;   // std::optional<std::vector<at::Tensor>> const&
  bool is_later = false;  // made on one thread, and its row begins on the one that executes it
};

// What a function without a name in its file is, by the object of the user's scope that it makes
// off the stack. Gloo's works are made by std::make_shared, annotations as members of a class of
// torch's own.
enum class NamelessMaker : uint8_t { kNeither, kAnnotation, kGlooWork };
NamelessMaker KindOfNameless(const CodeImage& image, const FlowGraph& graph,
                             const std::vector<uint64_t>& constructors);

// Adds what the file makes to `facts`: rows, ends, gaps. `handled`: functions that have other
// probes.
class RowMakerSearch {
 public:
  // Leaves out functions, with one gap, when `limit_ns` of the thread's processor time are used up.
  RowMakerSearch(const ModuleImage& image, const RowTargets& targets,
                 const std::vector<CallSite>& calls, int64_t limit_ns, ModuleFacts* facts);

  // Adds the class behind Python's torch._C._profiler._RecordFunctionFast.
  void AddFastContexts();
  // Adds all other functions with an at::RecordFunction of their own.
  void AddGuards();
  // Adds a caller of getStepCallbacksUnlessEmpty that is not one of the dispatcher's functions.
  // Returns false where it could not be resolved.
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
  std::optional<RowProbe> GroupCallProbe(uint64_t address) const;
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
  // Whether there is no time for more.
  bool IsTimeUp();

  const ModuleImage& image_;
  const RowTargets& targets_;
  std::vector<Function> functions_;  // with a call to any target, ascending
  std::set<uint64_t> contexts_;      // functions that AddFastContexts has taken
  ModuleFacts* facts_;
  const int64_t deadline_ns_;
  bool is_cut_ = false;
  std::vector<RelocatedPointer> pointers_;  // of the file; read when they are first needed
};

}  // namespace proftrace
