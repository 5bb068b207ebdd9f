// Plans how probes read the inputs of operators (--record-shapes), with one signature for each kind
// of call.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <cstdint>
#include <string>
#include <vector>

#include "symbols/probe_plan.h"
#include "symbols/process/process_memory.h"
#include "symbols/torch/module_analysis.h"
#include "symbols/torch/operator_schema.h"
#include "symbols/torch/row_inputs.h"
#include "symbols/torch/torch_layout.h"
#include "symbols/x86/call_inputs.h"

namespace proftrace {

class InputPlanner {
 public:
  // `schemas` must outlive the planner.
  InputPlanner(const TorchLayout& layout, const SchemaReading& schemas)
      : layout_(layout), schemas_(schemas) {}

  // Makes `points`, the probes of an operator's begin, read its inputs. Where the begin is at the
  // call for the profiler's callbacks and the arguments are found there, that one probe reads them.
  // Otherwise the begin moves to the entry, a second probe does the work that belongs to the call,
  // and a third one reads floating-point arguments. Leaves `points` unchanged where neither is
  // possible.
  void AddOperator(const ProbedFunction& function, const OperatorInfo& info,
                   std::vector<ProbePoint>* points);
  // Makes the begins of Node::operator() read their inputs, a vector of tensors.
  void AddNode();
  // Makes the begin of a copy of Dispatcher::callBoxed read its inputs, a Stack.
  void AddBoxed(const ProbedFunction& function, ProbePoint* begin);

  // Adds the inputs of a row outside of the dispatcher's functions. Returns 1 + their index in
  // ProbePlan::row_inputs; 0 = it is not known how to read them.
  uint32_t AddRow(const RowInputs& inputs, uint64_t load_bias);

  // Moves everything that was added into the plan. Also adds the signatures of operators without a
  // function of their own, which are called where the dispatcher's code is inlined, by the types of
  // their kernels in `memory`.
  void Finish(const TargetMemory& memory, ProbePlan* plan);

 private:
  // Returns 1 + the index of the signature; 0 = there is no room for it.
  uint16_t Intern(const CallInputs& inputs);
  void AddAtEntry(const ProbedFunction& function, const OperatorInfo& info,
                  const CallInputs& inputs, std::vector<ProbePoint>* points);
  // Interns the signature of a call with one argument, a list whose elements torch shows.
  uint16_t InternVector(abi::pt_argument_kind kind, uint8_t place);
  // Returns the signature of a kind of row; 0 = not known here.
  uint16_t RowSignature(const RowInputs& inputs);

  const TorchLayout& layout_;
  const SchemaReading& schemas_;
  std::vector<abi::pt_signature> signatures_;
  std::vector<abi::pt_row_inputs> rows_;
  std::vector<OperatorSignature> operator_signatures_;
  absl::flat_hash_map<std::string, uint16_t> numbers_;  // numbers of signatures by their bytes
  absl::flat_hash_set<uint64_t> with_functions_;        // operators that AddOperator has had
  uint16_t node_ = 0;                                   // 1 + the index of its signature
  uint32_t operators_ = 0;
  uint32_t without_inputs_ = 0;   // operators whose arguments' places are not known
  uint32_t without_doubles_ = 0;  // operators whose floating-point arguments are not saved anywhere
  std::string example_;           // an operator that one of these two counts has
};

}  // namespace proftrace
