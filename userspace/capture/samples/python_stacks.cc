#include "userspace/capture/samples/python_stacks.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <utility>

#include "symbols/plan/python_reading.h"
#include "userspace/capture/names/script_collector.h"

namespace proftrace {
namespace {

constexpr char kStacksFeature[] = "Python stacks";

Unsupported Gap(Pid pid, const std::string& reason) {
  return {kStacksFeature, "PID " + std::to_string(Raw(pid)) + ": " + reason};
}

// Adds a process to the sampler. `python` is the process's Python, if the process has one.
std::vector<Unsupported> Sample(Sampler* sampler, Pid pid,
                                const absl::StatusOr<PythonReading>& python) {
  SampledProcess process;
  if (python.ok()) {
    process.python = python->runtime.layout;
    process.python_version = python->runtime.layout.stack.version;
    process.python_file = python->runtime.file;
  }
  const absl::Status status = sampler->AddProcess(pid, process);
  if (status.ok()) return {};
  return {{"samples", "PID " + std::to_string(Raw(pid)) + ": " + std::string(status.message())}};
}

}  // namespace

std::vector<Unsupported> PrepareSamples(Sampler* sampler, Pid pid) {
  return Sample(sampler, pid, ReadPython(pid));
}

void PrepareWaits(SystemPrograms* system, Pid pid) {
  if (system == nullptr || !system->wants_python()) return;
  const absl::StatusOr<PythonReading> python = ReadPython(pid);
  if (python.ok()) system->AddPython(pid, *python);
}

void PrepareStacks(BpfPrograms* programs, PatchRecorder* patch,
                   const abi::pt_script_layout& scripts, ModuleCollector* modules, Sampler* sampler,
                   Pid pid, Target* target, std::vector<Unsupported>* gaps) {
  const absl::StatusOr<PythonReading> reading = ReadPython(pid);
  if (sampler != nullptr) {
    for (Unsupported& gap : Sample(sampler, pid, reading)) gaps->push_back(std::move(gap));
  }
  if (!reading.ok()) {
    gaps->push_back(Gap(pid, std::string(reading.status().message())));
    if (patch != nullptr && scripts.state.index != 0) {
      gaps->push_back({kScriptsFeature, "PID " + std::to_string(Raw(pid)) +
                                            ": rows that jumps record have it only where they have "
                                            "Python's stacks"});
    }
    return;
  }
  const PythonRuntime* python = &reading->runtime;
  target->python_paths = reading->paths;
  target->python_version = python->version;
  if (python->interpreters > 1) {
    gaps->push_back(Gap(pid, "it has " + std::to_string(python->interpreters) +
                                 " interpreters; their threads' stacks are shown alike"));
  }
  if (!programs->wants_stacks()) return;
  bool are_read = false;
  if (patch != nullptr) {
    absl::Status status = reading->state_place.status();
    if (status.ok()) {
      status = patch->AddPython(pid, python->file,
                                {python->layout.stack, *reading->state_place,
                                 python->address + python->layout.finalizing, 0, scripts});
    }
    are_read = status.ok();
    if (!are_read) {
      gaps->push_back(
          Gap(pid, "rows that jumps record have none: " + std::string(status.message())));
    }
  }
  if (!programs->reads_stacks()) {
    if (programs->is_loaded()) {
      gaps->push_back({kStacksFeature,
                       "this kernel does not take the programs; Linux 5.17 or later is needed, or "
                       "--tier patch"});
    }
    if (!are_read) return;
  } else if (absl::Status status = programs->AddPythonLayout(pid, python->layout.stack);
             !status.ok()) {
    gaps->push_back(Gap(pid, std::string(status.message())));
    return;
  }
  modules->SetLayout(pid, python->layout);
  target->stacks_recorded = true;
  return;
}

}  // namespace proftrace
