#include "userspace/capture/python_stacks.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "symbols/process/process_maps.h"
#include "symbols/process/process_memory.h"
#include "symbols/python/python_paths.h"
#include "symbols/python/python_runtime.h"
#include "symbols/python/python_state_place.h"

namespace proftrace {
namespace {

constexpr char kStacksFeature[] = "Python stacks";

Unsupported Gap(Pid pid, const std::string& reason) {
  return {kStacksFeature, "PID " + std::to_string(Raw(pid)) + ": " + reason};
}

// `python`: of the process, if it has one.
std::vector<Unsupported> Sample(Sampler* sampler, Pid pid,
                                const absl::StatusOr<PythonRuntime>& python) {
  SampledProcess process;
  if (python.ok()) {
    process.python = python->layout;
    process.python_version = python->layout.stack.version;
    process.python_file = python->file;
  }
  const absl::Status status = sampler->AddProcess(pid, process);
  if (status.ok()) return {};
  return {{"samples", "PID " + std::to_string(Raw(pid)) + ": " + std::string(status.message())}};
}

absl::StatusOr<PythonRuntime> FindPython(Pid pid, const TargetMemory& memory) {
  const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(pid);
  if (!mappings.ok()) return mappings.status();
  absl::StatusOr<PythonRuntime> python = FindPythonRuntime(pid, memory, GroupByFile(*mappings));
  if (python.ok()) python->layout.stack.state_place = FindKeptPythonState(memory, python->layout);
  return python;
}

}  // namespace

std::vector<Unsupported> PrepareSamples(Sampler* sampler, Pid pid) {
  const ProcessMemory memory(pid);
  return Sample(sampler, pid, FindPython(pid, memory));
}

void PrepareWaits(SystemPrograms* system, Pid pid) {
  if (system == nullptr || !system->wants_python()) return;
  const ProcessMemory memory(pid);
  const absl::StatusOr<PythonRuntime> python = FindPython(pid, memory);
  if (python.ok()) system->AddPython(pid, memory, *python);
}

std::vector<Unsupported> PrepareStacks(BpfPrograms* programs, PatchRecorder* patch,
                                       ModuleCollector* modules, Sampler* sampler, Pid pid,
                                       Target* target) {
  const ProcessMemory memory(pid);
  const absl::StatusOr<PythonRuntime> python = FindPython(pid, memory);
  std::vector<Unsupported> gaps;
  if (sampler != nullptr) gaps = Sample(sampler, pid, python);
  if (!python.ok()) {
    gaps.push_back(Gap(pid, std::string(python.status().message())));
    return gaps;
  }
  target->python_paths = ReadPythonPaths(pid, memory, *python);
  target->python_version = python->version;
  if (python->interpreters > 1) {
    gaps.push_back(Gap(pid, "it has " + std::to_string(python->interpreters) +
                                " interpreters; their threads' stacks are shown alike"));
  }
  if (!programs->wants_stacks()) return gaps;
  bool are_read = false;
  if (patch != nullptr) {
    const absl::StatusOr<uint32_t> place = FindPythonStatePlace(memory, *python);
    absl::Status status = place.status();
    if (status.ok()) {
      status = patch->AddPython(
          pid, python->file,
          {python->layout.stack, *place, python->address + python->layout.finalizing, 0});
    }
    are_read = status.ok();
    if (!are_read) {
      gaps.push_back(
          Gap(pid, "rows that jumps record have none: " + std::string(status.message())));
    }
  }
  if (!programs->reads_stacks()) {
    if (programs->is_loaded()) {
      gaps.push_back({kStacksFeature,
                      "this kernel does not take the programs; Linux 5.17 or later is needed, or "
                      "--tier patch"});
    }
    if (!are_read) return gaps;
  } else if (absl::Status status = programs->AddPythonLayout(pid, python->layout.stack);
             !status.ok()) {
    gaps.push_back(Gap(pid, std::string(status.message())));
    return gaps;
  }
  modules->SetLayout(pid, python->layout);
  target->stacks_recorded = true;
  return gaps;
}

}  // namespace proftrace
