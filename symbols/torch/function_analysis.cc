#include "symbols/torch/function_analysis.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "symbols/elf/code_image.h"
#include "symbols/process/read_budget.h"
#include "symbols/x86/key_set.h"
#include "userspace/base/clock.h"
#include "userspace/base/text.h"
#include "userspace/base/turns.h"

namespace proftrace {
namespace {

// How many operators a thread takes at a time: so many that taking costs nothing, and so few that
// the work is shared evenly.
constexpr size_t kOperatorsATurn = 32;

// Whether the function may have arguments of type double: mangled names have a "d" for each.
bool MayTakeDoubles(std::string_view symbol) {
  return Contains(symbol.substr(std::min(symbol.rfind("4callE"), symbol.size())), "d");
}

}  // namespace

FunctionAnalysis::FunctionAnalysis(const ModuleImage& image,
                                   const std::vector<uint64_t>& step_callbacks, int64_t limit_ns)
    : image_(image), step_callbacks_(step_callbacks), deadline_ns_(ThreadCpuNs() + limit_ns) {}

int64_t FunctionAnalysis::left_ns() const { return deadline_ns_ - ThreadCpuNs(); }

void FunctionAnalysis::AddGap(std::string feature, std::string reason) {
  gaps.push_back({std::move(feature), std::move(reason)});
}

void FunctionAnalysis::AddFunctionGap(const ProbedFunction& function, std::string_view reason) {
  const std::string_view identifier = OperatorIdentifier(function.symbol);
  AddGap(identifier.empty() ? "function " + ReadableName(function.symbol)
                            : "operator " + std::string(identifier),
         std::string(reason));
}

absl::StatusOr<FlowGraph> FunctionAnalysis::BuildGraph(uint64_t start, uint64_t end) {
  // A symbol's size can be wrong (one operator of Debian's 1.13), but the unwind tables are right,
  // because exceptions rely on them.
  const auto unwind = image_.UnwindRangeAt(start);
  if (unwind && unwind->start == start) end = unwind->end;
  if (end <= start) return absl::InvalidArgumentError("its size is not known");
  if (left_ns() < 0 || !ReadBudget::PayAll(0)) {
    is_cut = true;
    return absl::DeadlineExceededError("the file took too long");
  }
  return FlowGraph::Build(image_, start, end);
}

void FunctionAnalysis::Add(ProbedFunction function, const FlowGraph& graph, WorkRule work) {
  const auto begin = FindBeginSite(graph);
  if (!begin) {
    AddFunctionGap(function, "its entry is part of a loop");
    return;
  }
  const auto offset = image_.file().FileOffset(begin->address);
  function.begin_emulated = begin->emulated;
  if (!HasNoEnd(function.role)) {
    ExitSites sites = FindExitSites(graph, work);
    // kNamed is the better rule where the names of the work are known and the code cleans up by
    // indirect calls.
    if (sites.rule == ExitRule::kNone || sites.rule == ExitRule::kReturn) {
      if (work == WorkRule::kNamed && image_.has_full_symbols()) {
        sites = FindExitSites(graph, WorkRule::kNamed);
      }
    }
    for (const uint64_t address : sites.addresses) {
      const auto end_offset = image_.file().FileOffset(address);
      if (!end_offset || address == begin->address) sites.rule = ExitRule::kNone;
      if (end_offset) function.ends.push_back(*end_offset);
    }
    if (sites.rule == ExitRule::kNone) {
      AddFunctionGap(function, "no place that every normal return passes exactly once");
      return;
    }
    function.exit_rule = sites.rule;
  }
  if (!offset) return;
  function.begin = *offset;
  if (begin->next != 0) {
    function.cost_probe = image_.file().FileOffset(begin->next).value_or(0);
  }
  functions.push_back(std::move(function));
}

void FunctionAnalysis::AddOperator(const NamedFunction& symbol) {
  ProbedFunction function;
  function.role = FunctionRole::kOperator;
  function.symbol = std::string(symbol.name);
  const auto graph = BuildGraph(symbol.address, symbol.address + symbol.size);
  if (!graph.ok()) {
    AddFunctionGap(function, std::string(graph.status().message()));
    return;
  }
  function.callbacks = FindCallbacksCall(*graph);
  if (function.callbacks.offset == 0) {
    AddGap("sequence numbers of operator " + std::string(OperatorIdentifier(symbol.name)),
           "where it keeps its dispatch keys is not clear from its code");
  } else {
    const auto call = FindOnlyCall(*graph, step_callbacks_);
    function.arguments = FindKeptArguments(*graph, *call);
  }
  if (MayTakeDoubles(symbol.name)) function.saved_doubles = FindSavedDoubles(*graph);
  if (uint64_t& address = function.saved_doubles.address; address != 0) {
    address = image_.file().FileOffset(address).value_or(0);
  }
  Add(std::move(function), *graph, WorkRule::kDispatch);
}

CallbacksCall FunctionAnalysis::FindCallbacksCall(const FlowGraph& graph) const {
  const auto node = FindOnlyCall(graph, step_callbacks_);
  if (!node) return {};
  const auto keys = FindKeySet(graph, *node);
  const auto frame = FrameWordsAt(graph, *node);
  const auto offset = image_.file().FileOffset(graph.node(*node).instruction.address);
  if (!keys || !frame || !offset) return {};
  return {*offset, keys->reg, keys->offset, static_cast<uint16_t>(*frame)};
}

void AddOperators(const ModuleImage& image, const std::vector<uint64_t>& step_callbacks,
                  const std::vector<NamedFunction>& operators, FunctionAnalysis* out) {
  struct Turn {
    std::vector<ProbedFunction> functions;
    std::vector<PlanGap> gaps;
    bool is_cut = false;
  };
  std::vector<Turn> turns((operators.size() + kOperatorsATurn - 1) / kOperatorsATurn);
  const int64_t limit_ns = out->left_ns();
  const ReadBudget::Share share;
  ShareTurns(turns.size(), [&]() -> TurnWorker {
    const auto analysis = std::make_shared<FunctionAnalysis>(image, step_callbacks, limit_ns);
    const auto join = std::make_shared<ReadBudget::Join>(share);
    return [&operators, &turns, analysis, join](size_t turn) {
      const size_t first = turn * kOperatorsATurn;
      const size_t last = std::min(first + kOperatorsATurn, operators.size());
      for (size_t i = first; i < last; ++i) analysis->AddOperator(operators[i]);
      turns[turn] = {std::exchange(analysis->functions, {}), std::exchange(analysis->gaps, {}),
                     analysis->is_cut};
    };
  });
  for (Turn& turn : turns) {
    std::move(turn.functions.begin(), turn.functions.end(), std::back_inserter(out->functions));
    std::move(turn.gaps.begin(), turn.gaps.end(), std::back_inserter(out->gaps));
    out->is_cut |= turn.is_cut;
  }
}

}  // namespace proftrace
