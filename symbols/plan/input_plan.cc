#include "symbols/plan/input_plan.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "symbols/elf/kernel_types.h"
#include "symbols/torch/call_arguments.h"
#include "userspace/base/demangle.h"

namespace proftrace {
namespace {

constexpr size_t kMostSignatures = 60000;
// How many words Dispatcher::callWithDispatchKeySlowPath takes before the operator's arguments: the
// operator, the callbacks, the keys, the kernel.
constexpr unsigned kSlowPathWords = 4;

unsigned VectorRegisters(const std::vector<abi::pt_argument>& arguments) {
  return static_cast<unsigned>(
      std::count_if(arguments.begin(), arguments.end(), [](const abi::pt_argument& argument) {
        return argument.place >= abi::PT_ARGUMENT_VECTOR_REGISTER &&
               argument.place < abi::PT_ARGUMENT_IN_MEMORY;
      }));
}

}  // namespace

uint16_t InputPlanner::Intern(const CallInputs& inputs) {
  if (inputs.arguments.size() > PT_MOST_ARGUMENTS) return 0;
  abi::pt_signature signature{};
  signature.layout = layout_.layout;
  signature.count = static_cast<uint32_t>(inputs.arguments.size());
  signature.first_word = inputs.first_word;
  signature.stack_words = inputs.stack_words;
  signature.begin = inputs.begin;
  std::copy(inputs.arguments.begin(), inputs.arguments.end(), signature.arguments);
  const std::string bytes(reinterpret_cast<const char*>(&signature), sizeof(signature));
  const auto [it, is_new] = numbers_.try_emplace(bytes, 0);
  if (!is_new) return it->second;
  if (signatures_.size() >= kMostSignatures) return 0;
  signatures_.push_back(signature);
  it->second = static_cast<uint16_t>(signatures_.size());
  return it->second;
}

void InputPlanner::AddOperator(const ProbedFunction& function, const OperatorInfo& info,
                               std::vector<ProbePoint>* points) {
  ++operators_;
  with_functions_.insert(info.address);
  const auto schema = schemas_.schemas.find(info.address);
  std::optional<std::vector<abi::pt_argument>> arguments;
  if (schema != schemas_.schemas.end()) {
    arguments = PlaceArguments(function.symbol, *schema->second, layout_.optional_form);
  }
  const auto at_entry = arguments ? InputsAtEntry(*arguments) : std::nullopt;
  if (!at_entry) {
    ++without_inputs_;
    example_ = info.name;
    return;
  }
  ProbePoint& begin = points->front();
  if (RoleOf(begin) == abi::PT_ROLE_OPERATOR_BEGIN) {
    auto at_call = InputsAtCall(*arguments, function.arguments, function.callbacks.frame_words);
    if (at_call) at_call->begin = begin.cookie & ~uint64_t{0xffffff};
    if (const uint16_t number = at_call ? Intern(*at_call) : 0; number != 0) {
      begin.cookie = PT_COOKIE(begin.cookie, abi::PT_ROLE_OPERATOR_CALL, 0, 0);
      begin.signature = number;
      return;
    }
  }
  AddAtEntry(function, info, *at_entry, points);
}

void InputPlanner::AddAtEntry(const ProbedFunction& function, const OperatorInfo& info,
                              const CallInputs& inputs, std::vector<ProbePoint>* points) {
  const uint16_t number = Intern(inputs);
  if (number == 0) {
    ++without_inputs_;
    example_ = info.name;
    return;
  }
  const uint64_t site = points->front().cookie & 0xffff;
  ProbePoint entry{function.begin, PT_COOKIE(site, abi::PT_ROLE_INPUTS_BEGIN, 0, 0)};
  entry.signature = number;
  if (RoleOf(points->front()) == abi::PT_ROLE_OPERATOR_BEGIN) {
    SetRole(abi::PT_ROLE_SEQUENCE, &points->front());
    points->insert(points->begin(), entry);
  } else {
    points->front() = entry;
  }
  const unsigned doubles = VectorRegisters(inputs.arguments);
  if (doubles == 0) return;
  CallInputs saved;
  for (unsigned i = 0; i < doubles && i < function.saved_doubles.saved.size(); ++i) {
    const SavedDouble& place = function.saved_doubles.saved[i];
    if (!place.is_saved) break;
    abi::pt_argument argument{};
    argument.kind = abi::PT_ARGUMENT_SAVED_DOUBLE;
    argument.place = place.by_frame_pointer ? 1 : 0;
    argument.value_offset = place.offset;
    saved.arguments.push_back(argument);
  }
  const uint16_t saved_number =
      saved.arguments.size() == doubles && function.saved_doubles.address != 0 ? Intern(saved) : 0;
  if (saved_number == 0) {
    ++without_doubles_;
    example_ = info.name;
    return;
  }
  ProbePoint point;
  point.file_offset = function.saved_doubles.address;
  point.cookie = PT_COOKIE(site, abi::PT_ROLE_SPILLED_INPUTS, 0, 0);
  point.signature = saved_number;
  points->push_back(point);
}

uint16_t InputPlanner::InternVector(abi::pt_argument_kind kind, uint8_t place) {
  abi::pt_argument inputs{};
  inputs.kind = static_cast<uint8_t>(kind);
  inputs.place = place;
  inputs.second = inputs.flag = abi::PT_ARGUMENT_NOWHERE;
  return Intern(CallInputs{{inputs}, 0, 0, 0});
}

void InputPlanner::AddNode() {
  // rdi holds the place of the result and rsi the node, so that the inputs are in rdx.
  node_ = InternVector(abi::PT_ARGUMENT_TENSOR_VECTOR, abi::PT_RDX);
}

void InputPlanner::AddBoxed(const ProbedFunction& function, ProbePoint* begin) {
  begin->signature = InternVector(abi::PT_ARGUMENT_STACK_VALUES, function.stack_argument);
}

uint16_t InputPlanner::RowSignature(const RowInputs& inputs) {
  abi::pt_argument argument{};
  argument.second = 1;
  argument.flag = abi::PT_ARGUMENT_NOWHERE;
  switch (inputs.kind) {
    case RowInputKind::kNone:
    case RowInputKind::kKernel:
    case RowInputKind::kUnknown:
      return 0;
    case RowInputKind::kValues:
      argument.kind = abi::PT_ARGUMENT_VALUES;
      break;
    case RowInputKind::kLastValues:
      argument.kind = abi::PT_ARGUMENT_LAST_VALUES;
      break;
    case RowInputKind::kStack:
      argument.kind = abi::PT_ARGUMENT_STACK_VALUES;
      break;
    case RowInputKind::kTensorVector: {
      const bool flag_first = layout_.optional_form == OptionalForm::kC10;
      argument.kind = abi::PT_ARGUMENT_TENSOR_VECTOR;
      argument.flag = abi::PT_ARGUMENT_IN_MEMORY;
      argument.value_offset = flag_first ? 8 : 0;
      argument.flag_offset = flag_first ? 0 : sizeof(std::vector<void*>);
      break;
    }
    case RowInputKind::kTensors:
      return InternVector(abi::PT_ARGUMENT_TENSOR_VECTOR, 0);
    case RowInputKind::kPythonValues:
      if (layout_.layout.python_tensor == 0 || layout_.layout.python_items == 0) return 0;
      argument.kind = abi::PT_ARGUMENT_PYTHON_VALUES;
      break;
    case RowInputKind::kPythonArguments:
      if (layout_.layout.python_tensor == 0 || layout_.layout.python_items == 0) return 0;
      argument.kind = abi::PT_ARGUMENT_PYTHON_ARGUMENTS;
      break;
    case RowInputKind::kInferredValues:
      if (layout_.layout.python_tensor == 0 || layout_.layout.python_items == 0) return 0;
      argument.kind = abi::PT_ARGUMENT_INFERRED_VALUES;
      argument.value_offset = inputs.has_keyword_scope ? 1 : 0;
      break;
  }
  return Intern(CallInputs{{argument}, 0, 0, 0});
}

uint32_t InputPlanner::AddRow(const RowInputs& inputs, uint64_t load_bias) {
  uint16_t signature = RowSignature(inputs);
  const bool by_operator = inputs.kind == RowInputKind::kKernel && inputs.type.empty();
  if (!inputs.type.empty()) {
    const auto arguments = PlaceKernelArguments(inputs.type, layout_.optional_form, kSlowPathWords);
    if (arguments) signature = Intern(CallInputs{*arguments, 0, 0, 0});
  }
  if ((signature == 0 && !by_operator) || inputs.words.size() > PT_ROW_WORDS) return 0;
  abi::pt_row_inputs row{};
  row.signature = signature;
  row.count = static_cast<uint32_t>(inputs.words.size());
  for (size_t i = 0; i < inputs.words.size(); ++i) {
    row.words[i] = inputs.words[i];
    if (row.words[i].base == abi::PT_PLACE_ADDRESS) row.words[i].address += load_bias;
  }
  rows_.push_back(row);
  return static_cast<uint32_t>(rows_.size());
}

void InputPlanner::Finish(const TargetMemory& memory, ProbePlan* plan) {
  KernelTypes types(memory);
  for (const OperatorInfo& info : plan->operators) {
    if (with_functions_.contains(info.address)) continue;
    const auto type = types.TypeOf(info.address);
    const auto arguments =
        type ? PlaceKernelArguments(Demangle(*type).value_or(""), layout_.optional_form)
             : std::optional<std::vector<abi::pt_argument>>();
    const uint16_t signature = arguments ? Intern(CallInputs{*arguments, 0, 0, 0}) : 0;
    if (signature != 0) operator_signatures_.push_back({info.address, signature});
  }
  plan->has_input_probes = true;
  plan->signatures = std::move(signatures_);
  plan->node_signature = node_;
  plan->row_inputs = std::move(rows_);
  plan->operator_signatures = std::move(operator_signatures_);
  if (without_inputs_ != 0) {
    plan->gaps.push_back(
        {"inputs of operators", absl::StrCat("how ", without_inputs_, " of ", operators_,
                                             " are called is not known (", example_, ")")});
  }
  if (without_doubles_ != 0) {
    plan->gaps.push_back(
        {"floating-point inputs of operators",
         absl::StrCat("where ", without_doubles_, " of ", operators_,
                      " have them is not clear from their code (", example_, "): shown as ?")});
  }
}

}  // namespace proftrace
