// The static half of a probe plan: what one mapped file contributes, from the file alone. It
// depends on nothing but the file's bytes, so it is what the cache keeps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "symbols/elf/module_image.h"
#include "symbols/probe_plan.h"
#include "symbols/torch/autograd_facts.h"
#include "symbols/torch/row_inputs.h"
#include "symbols/x86/kept_arguments.h"
#include "symbols/x86/saved_doubles.h"

namespace proftrace {

enum class FunctionRole : uint8_t {
  kOperator = 0,    // at::_ops::X::call
  kBoxed = 1,       // a copy of c10::Dispatcher::callBoxed
  kEvaluate = 2,    // torch::autograd::Engine::evaluate_function
  kNodeCall = 3,    // a copy of torch::autograd::Node::operator()
  kCatch = 4,       // __cxa_begin_catch
  kDistEngine = 5,  // DistEngine::execute_graph_task_until_ready_queue_empty
  kCollector = 6,   // CPython's garbage collection (garbage_collector.h)
  // Entries in libc10, which tell torch's profiler of memory (enum pt_role).
  kAllocation = 32,
  kFree = 33,
  kCpuOutOfMemory = 34,
  kDeviceMemory = 35,
  kDeviceOutOfMemory = 36,
  kCudaCall = 64,  // a function of the CUDA Runtime or Driver (cuda_functions.h)
};

constexpr bool IsMemoryRole(FunctionRole role) {
  return role >= FunctionRole::kAllocation && role <= FunctionRole::kDeviceOutOfMemory;
}
// Whether a probe at the function's begin is all there is.
constexpr bool HasNoEnd(FunctionRole role) {
  return role == FunctionRole::kCatch || IsMemoryRole(role);
}

// A function's only call of at::getStepCallbacksUnlessEmpty, where torch's row begins, and where
// the dispatch key set is then.
struct CallbacksCall {
  uint64_t offset = 0;         // in the file; 0 = not known
  uint8_t key_set = 0;         // a register by its hardware number, and PT_KEY_SET_IN_MEMORY
  int16_t key_set_offset = 0;  // from it
  uint16_t frame_words = 0;    // how far the stack pointer there is below the entry's
};

struct ProbedFunction {
  FunctionRole role = FunctionRole::kOperator;
  ExitRule exit_rule = ExitRule::kNone;
  uint8_t argument = 0;        // enum pt_register: where the operator or the node is
  uint8_t stack_argument = 0;  // enum pt_register: where a boxed call's Stack* is
  bool begin_emulated = false;
  uint64_t begin = 0;       // file offset
  uint64_t cost_probe = 0;  // file offset; see BeginSite::next; 0 = none
  CallbacksCall callbacks;
  std::vector<uint64_t> ends;  // file offsets, ascending
  SavedDoubles saved_doubles;  // of operators; its address is a file offset
  KeptArguments arguments;     // of operators; where they are at `callbacks`
  std::string symbol;
};

// One probe of a row that is no whole function.
struct RowProbe {
  uint64_t offset = 0;  // in the file
  uint8_t role = 0;     // enum pt_role
  // The register of the handle, by its hardware number; the handle = register + handle_offset. For
  // PT_ROLE_PLACED_BEGIN the register of the key set, with flags as in the cookie.
  uint8_t handle_register = 0;
  int16_t handle_offset = 0;
  std::optional<abi::pt_place> place;  // addresses are those before relocation
  RowInputs inputs;                    // addresses are those before relocation
  // The row's name if `place` leads through a null pointer.
  std::optional<abi::pt_place> otherwise;
};

// A row that a piece of a function makes: an at::RecordFunction of its own, a frame of
// TorchScript's interpreter, an operator that is called with the dispatcher's code inlined.
struct MadeRow {
  std::string symbol;            // of the function around it
  std::string literal;           // the row's name, where it is fixed
  std::vector<RowProbe> probes;  // the begin, and ends that belong to this row alone
  bool is_async = false;         // a work's row: torch calls it asynchronous wherever it ends
};

struct ModuleFacts {
  std::vector<ProbedFunction> functions;  // operators, boxed calls, …: as found
  std::vector<MadeRow> rows;
  std::vector<RowProbe> row_ends;  // ends of any row that is told by its handle
  std::vector<PlanGap> gaps;
  uint64_t dispatcher_slot =
      0;  // address (before relocation) of Dispatcher::singleton()::s, 0 = not in this file
  uint64_t python_node_vtable =
      0;  // address (before relocation) of PyNode's vtable as objects point to it, 0 = not here
  uint64_t undefined_tensor =
      0;  // address (before relocation) of the one c10::UndefinedTensorImpl, 0 = not here
  bool old_string_abi = false;     // the operators' signatures use the pre-C++11 std::string
  bool is_python_binding = false;  // defines parts of torch's Python binding
  AutogradFacts autograd;
  uint64_t callbacks_entry =
      0;                        // file offset of getStepCallbacksUnlessEmpty; 0 = not here, or dear
  uint64_t callbacks_next = 0;  // file offset of its BeginSite::next
  bool is_cut = false;          // it took too long: what is missing is among the gaps
};

// Returns the operator's identifier in at::_ops ("add_Tensor") from a mangled `call`; empty for any
// other symbol.
std::string_view OperatorIdentifier(std::string_view symbol);

// Whether the file can contribute at all, from its dynamic symbols alone (cheap); with `full`, from
// .symtab too, as for a torch that is linked statically into a program that exports nothing.
// `has_collector`: interpreters contribute their garbage collector.
bool MayContribute(ElfFile& file, bool full, bool has_collector);

// In processor time: a real libtorch takes two seconds, an emulated processor some forty. A file
// made to take long must not hold up the tracer.
constexpr int64_t kLongestAnalysisNs = 120'000'000'000;

// Analyses a file that may contribute, until `limit_ns` of processor time are used up.
ModuleFacts AnalyzeModule(ElfFile* file, int64_t limit_ns = kLongestAnalysisNs);

}  // namespace proftrace
