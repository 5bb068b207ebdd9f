// What a worker (target_reader.h) reads of recorded processes: names behind addresses, and whether
// something was registered since.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "symbols/plan/script_reading.h"
#include "symbols/probe_plan.h"
#include "symbols/process/process_memory.h"
#include "userspace/capture/target_reader.h"
#include "userspace/model/ids.h"

namespace proftrace {

// Returns the class of a C++ object by its vtable, demangled: "torch::autograd::AccumulateGrad".
// `vtable` as objects point to it: the word before it is the typeinfo, whose second word is the
// mangled name (Itanium C++ ABI 2.9.5).
std::optional<std::string> ReadClassName(const TargetMemory& memory, uint64_t vtable);

// Reads PyTypeObject::tp_name: the word after ob_refcnt, ob_type and ob_size.
std::optional<std::string> ReadPythonTypeName(const TargetMemory& memory, uint64_t type);

// Where a process keeps torch's list of symbols (c10::InternedStrings).
struct SymbolList {
  MemoryRange torch_data;  // that it lies in
  uint64_t place = 0;      // 0 = not known yet
  bool old_string_abi = false;
};
struct SymbolText {
  uint64_t place = 0;  // of the list
  std::string name;    // "prim::loop"
};

// Make what the worker is asked, and take its answers apart.
std::string AskClassName(uint64_t vtable);
std::string AskPythonTypeName(uint64_t type);
std::string AskSymbol(const SymbolList& list, uint32_t symbol);
std::optional<SymbolText> SymbolOf(std::string_view answer);
// The names of a frame of TorchScript's interpreter; ScriptIn() reads the answer.
std::string AskScriptNames(const ScriptReading& reading, uint64_t code, uint64_t node);

// As LastOperator(); also 0: it is not known, or nobody reads. `reader`: of a worker that runs
// ReadTargetWords(). `image`: as in TargetReader::Question.
uint64_t AskLastOperator(TargetReader* reader, Pid pid, uint32_t image, const ProbePlan& plan);

// The worker's: the answer; empty: what was asked for cannot be read.
std::string ReadTargetWords(Pid pid, std::string_view question);

}  // namespace proftrace
