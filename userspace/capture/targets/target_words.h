// The questions that a worker (target_reader.h) answers about recorded processes: names behind
// addresses, and whether an operator was registered since.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "symbols/plan/script_reading.h"
#include "symbols/probe_plan.h"
#include "symbols/process/process_memory.h"
#include "userspace/capture/targets/target_reader.h"
#include "userspace/model/ids.h"

namespace proftrace {

// Returns the class of a C++ object by its vtable, demangled: "torch::autograd::AccumulateGrad".
// `vtable` is the address that objects point to. The word before that address points to the
// typeinfo, whose second word points to the mangled name (Itanium C++ ABI 2.9.5).
std::optional<std::string> ReadClassName(const TargetMemory& memory, uint64_t vtable);

// Reads PyTypeObject::tp_name: the word after ob_refcnt, ob_type and ob_size.
std::optional<std::string> ReadPythonTypeName(const TargetMemory& memory, uint64_t type);

// Where a process keeps torch's list of symbols (c10::InternedStrings).
struct SymbolList {
  MemoryRange torch_data;  // the memory that the list lies in
  uint64_t place = 0;      // 0: not known yet
  bool old_string_abi = false;
};
struct SymbolText {
  uint64_t place = 0;  // address of the list
  std::string name;    // "prim::loop"
};

// Make questions for the worker, and take its answers apart.
std::string AskClassName(uint64_t vtable);
std::string AskPythonTypeName(uint64_t type);
std::string AskSymbol(const SymbolList& list, uint32_t symbol);
std::optional<SymbolText> SymbolOf(std::string_view answer);
// Asks for the names of a frame of TorchScript's interpreter; ScriptIn() reads the answer.
std::string AskScriptNames(const ScriptReading& reading, uint64_t code, uint64_t node);

// Has the worker of `reader`, which runs ReadTargetWords(), call LastOperator(), and returns the
// result. 0 also where the process cannot be read, or no worker is left. `image` is as in
// TargetReader::Question.
uint64_t AskLastOperator(TargetReader* reader, Pid pid, uint32_t image, const ProbePlan& plan);

// Runs in the worker. Returns the answer to a question; empty where the process cannot be read.
std::string ReadTargetWords(Pid pid, std::string_view question);

}  // namespace proftrace
