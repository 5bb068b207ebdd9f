// Analyses a file's functions one by one for its ModuleFacts. The analysis of a function does not
// depend on any other function, so that the operators, of which a libtorch has three thousand, are
// shared out among threads.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "symbols/elf/module_image.h"
#include "symbols/torch/module_analysis.h"
#include "symbols/x86/exit_sites.h"
#include "symbols/x86/flow_graph.h"

namespace proftrace {

struct NamedFunction {
  std::string_view name;  // mangled
  uint64_t address = 0;
  uint64_t size = 0;  // in bytes; may be wrong
};

// An object is for one thread, because its limit counts the processor time of the thread that made
// it.
class FunctionAnalysis {
 public:
  // `step_callbacks`: addresses of at::getStepCallbacksUnlessEmpty, as in RowTargets. After
  // `limit_ns` of processor time, further functions only become gaps. `image` and `step_callbacks`
  // must outlive it.
  FunctionAnalysis(const ModuleImage& image, const std::vector<uint64_t>& step_callbacks,
                   int64_t limit_ns);

  // Builds the graph of the function by the unwind table's range, or else by the symbol's.
  absl::StatusOr<FlowGraph> BuildGraph(uint64_t start, uint64_t end);
  // Finds the call by which `graph` asks for the profiler's callbacks, if the dispatch key set is
  // found there.
  CallbacksCall FindCallbacksCall(const FlowGraph& graph) const;

  // Add a function with its sites, or a gap that says why it has none.
  void Add(ProbedFunction function, const FlowGraph& graph, WorkRule work);
  void AddOperator(const NamedFunction& symbol);
  void AddGap(std::string feature, std::string reason);
  void AddFunctionGap(const ProbedFunction& function, std::string_view reason);

  int64_t left_ns() const;  // the processor time that is left of the limit

  // The results, in the order of the calls.
  std::vector<ProbedFunction> functions;
  std::vector<PlanGap> gaps;
  bool is_cut = false;  // the limit was reached before the last function

 private:
  const ModuleImage& image_;
  const std::vector<uint64_t>& step_callbacks_;
  const int64_t deadline_ns_;
};

// Adds the operators to `out`, in their order, by as many threads as there are processors.
void AddOperators(const ModuleImage& image, const std::vector<uint64_t>& step_callbacks,
                  const std::vector<NamedFunction>& operators, FunctionAnalysis* out);

}  // namespace proftrace
