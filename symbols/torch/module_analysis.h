// Makes the static half of a probe plan: the facts about one mapped file. They depend only on the
// file's bytes, so that they can be cached.
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
  // Functions of libc10 that report memory to torch's profiler (enum pt_role).
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
// Whether the function gets a probe at its begin only.
constexpr bool HasNoEnd(FunctionRole role) {
  return role == FunctionRole::kCatch || IsMemoryRole(role);
}

// A function's only call of at::getStepCallbacksUnlessEmpty, where torch's row begins, and the
// place of the dispatch key set at that call.
struct CallbacksCall {
  uint64_t offset = 0;         // in the file; 0 = not known
  uint8_t key_set = 0;         // a register by its hardware number, and PT_KEY_SET_IN_MEMORY
  int16_t key_set_offset = 0;  // of the key set, from that register
  uint16_t frame_words = 0;    // how many words the stack pointer is below that of the entry
};

struct ProbedFunction {
  FunctionRole role = FunctionRole::kOperator;
  ExitRule exit_rule = ExitRule::kNone;
  uint8_t argument = 0;        // enum pt_register with the operator or the node
  uint8_t stack_argument = 0;  // enum pt_register with a boxed call's Stack*
  bool begin_emulated = false;
  uint64_t begin = 0;       // file offset
  uint64_t cost_probe = 0;  // file offset; see BeginSite::next; 0 = none
  CallbacksCall callbacks;
  std::vector<uint64_t> ends;  // file offsets, ascending
  SavedDoubles saved_doubles;  // of operators; its address is a file offset
  KeptArguments arguments;     // of operators: where the arguments are at `callbacks`
  std::string symbol;
};

// One probe of a row that is only a part of a function.
struct RowProbe {
  uint64_t offset = 0;  // in the file
  uint8_t role = 0;     // enum pt_role
  // The register of the handle, by its hardware number; the handle = register + handle_offset. For
  // PT_ROLE_PLACED_BEGIN the register of the key set, with flags as in the cookie.
  uint8_t handle_register = 0;
  int16_t handle_offset = 0;
  std::optional<abi::pt_place> place;  // addresses are those before relocation
  RowInputs inputs;                    // addresses are those before relocation
  // The place of the row's name where `place` leads through a null pointer.
  std::optional<abi::pt_place> otherwise;
};

// A row that a part of a function makes: by an at::RecordFunction of its own, as a frame of
// TorchScript's interpreter, or by calling an operator with the dispatcher's code inlined.
struct MadeRow {
  std::string symbol;            // of the function around it
  std::string literal;           // the row's name, where it is fixed
  std::vector<RowProbe> probes;  // the begin, and ends that belong to this row alone
  // The row of a work, which torch calls asynchronous on whatever thread it ends
  bool is_async = false;
};

struct ModuleFacts {
  std::vector<ProbedFunction> functions;  // operators, boxed calls, …: as found
  std::vector<MadeRow> rows;
  std::vector<RowProbe> row_ends;  // ends of rows that are identified by a handle
  std::vector<PlanGap> gaps;
  uint64_t dispatcher_slot =
      0;  // address (before relocation) of Dispatcher::singleton()::s, 0 = not in this file
  uint64_t python_node_vtable =
      0;  // address (before relocation) of PyNode's vtable as objects point to it, 0 = not here
  uint64_t undefined_tensor =
      0;  // address (before relocation) of the one c10::UndefinedTensorImpl, 0 = not here
  bool old_string_abi = false;     // signatures in the file use the pre-C++11 std::string
  bool is_python_binding = false;  // defines parts of torch's Python binding
  AutogradFacts autograd;
  uint64_t callbacks_entry =
      0;                        // file offset of getStepCallbacksUnlessEmpty; 0 = not here, or dear
  uint64_t callbacks_next = 0;  // file offset of its BeginSite::next
  bool is_cut = false;          // the analysis took too long; the gaps say what is missing
};

// Returns the operator's identifier in at::_ops ("add_Tensor") from a mangled `call`; empty for any
// other symbol.
std::string_view OperatorIdentifier(std::string_view symbol);

// Whether the file can contribute to a plan, by its dynamic symbols (which is cheap). With `full`,
// looks into .symtab instead, for a torch that is linked statically into a program that exports
// nothing. `has_collector`: interpreters contribute their garbage collector.
bool MayContribute(ElfFile& file, bool full, bool has_collector);

// Returns ModuleFacts::dispatcher_slot of the file by its dynamic symbols.
uint64_t FindDispatcherSlot(ElfFile& file);

// The limit of processor time for one file, because a file made to take long must not hold up the
// tracer. A real libtorch takes two seconds, or forty on an emulated processor.
constexpr int64_t kLongestAnalysisNs = 120'000'000'000;

// Analyses a file that may contribute, until `limit_ns` of processor time are used up.
ModuleFacts AnalyzeModule(ElfFile* file, int64_t limit_ns = kLongestAnalysisNs);

}  // namespace proftrace
