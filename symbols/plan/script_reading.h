// What is to be known of a process's TorchScript before rows tell of its modules, read by a worker
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
  ScriptLayout names;              // for those who read the names
  ScriptKinds kinds;
};

// Fails where this PyTorch's interpreter is not as it is known, with why.
absl::StatusOr<ScriptReading> ReadScripts(Pid pid, const ProbePlan& plan);

// A question for the names of one frame, to a worker that may read the process: it has the answer
// of AnswerScript(); empty: they cannot be read. ScriptIn() reads that; nullopt: it is none.
std::string AskScript(const ScriptReading& reading, uint64_t code, uint64_t node);
std::string AnswerScript(const TargetMemory& memory, std::string_view question);
std::optional<ScriptNames> ScriptIn(std::string_view answer);

}  // namespace proftrace
