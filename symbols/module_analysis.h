// The static half of a probe plan: what one mapped file contributes, from the file alone. It
// depends on nothing but the file's bytes, so it is what the cache keeps.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "symbols/module_image.h"
#include "symbols/probe_plan.h"

namespace proftrace {

enum class FunctionRole : uint8_t {
  kOperator = 0,  // at::_ops::X::call
  kBoxed = 1,     // a copy of c10::Dispatcher::callBoxed
  kEvaluate = 2,  // torch::autograd::Engine::evaluate_function
  kNodeCall = 3,  // a copy of torch::autograd::Node::operator()
  kLiteral = 4,   // a RECORD_FUNCTION with a fixed name around a whole function
  kCatch = 5,     // __cxa_begin_catch
};

struct ProbedFunction {
  FunctionRole role = FunctionRole::kOperator;
  ExitRule exit_rule = ExitRule::kNone;
  uint8_t argument = 0;        // enum pt_register: where the operator or the node is
  uint8_t stack_argument = 0;  // enum pt_register: where a boxed call's Stack* is
  bool begin_emulated = false;
  uint64_t begin = 0;          // file offset
  std::vector<uint64_t> ends;  // file offsets, ascending
  std::string symbol;
  std::string literal;  // the row's name, for kLiteral
};

struct ModuleFacts {
  std::vector<ProbedFunction> functions;  // operators, boxed calls, …: as found
  std::vector<PlanGap> gaps;
  uint64_t dispatcher_slot =
      0;  // address (before relocation) of Dispatcher::singleton()::s, 0 = not in this file
  uint64_t python_node_vtable =
      0;  // address (before relocation) of PyNode's vtable as objects point to it, 0 = not here
  bool old_string_abi = false;     // the operators' signatures use the pre-C++11 std::string
  bool is_python_binding = false;  // defines parts of torch's Python binding
};

// The operator's identifier in at::_ops ("add_Tensor") from a mangled `call`; empty for any other
// symbol.
std::string_view OperatorIdentifier(std::string_view symbol);

// Whether the file can contribute at all, from its dynamic symbols alone (cheap); with `full`, from
// .symtab too, as for a torch that is linked statically into a program that exports nothing.
bool MayContribute(ElfFile& file, bool full);

// Analyses a file that may contribute.
ModuleFacts AnalyzeModule(std::unique_ptr<ElfFile> file);

}  // namespace proftrace
