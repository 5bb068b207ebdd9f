// Reads the facts about a process's TorchScript that rows with its modules need, in a worker
// without rights.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "bpf/abi/script_records.h"
#include "symbols/probe_plan.h"
#include "symbols/process/process_memory.h"
#include "symbols/torch/script_names.h"
#include "userspace/model/ids.h"

namespace proftrace {

struct ScriptReading {
  abi::pt_script_layout layout{};  // for the probes
  ScriptLayout names;              // for reading the names
  ScriptKinds kinds;
};

// Reads the facts. Fails, with the reason, where the interpreter of this PyTorch is not laid out as
// expected.
absl::StatusOr<ScriptReading> ReadScripts(Pid pid, const ProbePlan& plan);

// These three carry the names of one frame from a worker that may read the process. AskScript()
// returns the question; AnswerScript(), in the worker, returns the answer, or an empty text where
// the names cannot be read; ScriptIn() decodes the answer, nullopt: it has no names.
std::string AskScript(const ScriptReading& reading, uint64_t code, uint64_t node);
std::string AnswerScript(const TargetMemory& memory, std::string_view question);
std::optional<ScriptNames> ScriptIn(std::string_view answer);

}  // namespace proftrace
