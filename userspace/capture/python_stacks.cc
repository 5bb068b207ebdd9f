#include "userspace/capture/python_stacks.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "symbols/process_maps.h"
#include "symbols/process_memory.h"
#include "symbols/python_paths.h"
#include "symbols/python_runtime.h"

namespace proftrace {
namespace {

constexpr char kFeature[] = "Python stacks";

Unsupported Gap(Pid pid, const std::string& reason) {
  return {kFeature, "PID " + std::to_string(Raw(pid)) + ": " + reason};
}

}  // namespace

std::vector<Unsupported> PrepareStacks(BpfPrograms* programs, ModuleCollector* modules, Pid pid,
                                       Target* target) {
  if (!programs->reads_stacks()) {
    return {{kFeature, "this kernel does not take the programs; Linux 5.17 or later is needed"}};
  }
  const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(pid);
  if (!mappings.ok()) return {Gap(pid, std::string(mappings.status().message()))};
  const ProcessMemory memory(pid);
  const absl::StatusOr<PythonRuntime> python =
      FindPythonRuntime(pid, memory, GroupByFile(*mappings));
  if (!python.ok()) return {Gap(pid, std::string(python.status().message()))};
  if (absl::Status status = programs->AddPythonLayout(pid, python->layout.stack); !status.ok()) {
    return {Gap(pid, std::string(status.message()))};
  }
  modules->SetLayout(pid, python->layout);
  target->stacks_recorded = true;
  target->python_paths = ReadPythonPaths(pid, memory, *python);
  target->python_version = python->version;
  if (python->interpreters > 1) {
    return {Gap(pid, "it has " + std::to_string(python->interpreters) +
                         " interpreters; their threads' stacks are shown alike")};
  }
  return {};
}

}  // namespace proftrace
