// Tells all readers of a process's Python how it lies in memory: the kernel's programs and the
// collector of modules (--with-stack), the jumps, the sampler (--sample), and the programs that
// distinguish waits for locks from other waits (--activities sched).
#pragma once

#include <string>
#include <vector>

#include "bpf/abi/script_records.h"
#include "userspace/capture/jumps/patch_recorder.h"
#include "userspace/capture/kernel/bpf_programs.h"
#include "userspace/capture/kernel/system_programs.h"
#include "userspace/capture/names/module_collector.h"
#include "userspace/capture/samples/sampler.h"
#include "userspace/model/ids.h"
#include "userspace/model/recording.h"

namespace proftrace {

// Tells the readers of stacks, and sets the fields of `target` that are about stacks. To be called
// before the process's first probe. Adds a reason to `gaps` where there are no stacks, or not of
// all its Python. `sampler` is null where nothing is sampled, and `patch` where there are no jumps.
// `scripts` is the result of ScriptCollector::Prepare().
void PrepareStacks(BpfPrograms* programs, PatchRecorder* patch,
                   const abi::pt_script_layout& scripts, ModuleCollector* modules, Sampler* sampler,
                   Pid pid, Target* target, std::vector<Unsupported>* gaps);
// Tells only the sampler, for a process whose operators are not recorded. Returns the gaps of the
// process's samples.
std::vector<Unsupported> PrepareSamples(Sampler* sampler, Pid pid);
// Has waits for Python's locks distinguished from other waits of the process's threads, if the
// process's Python is known. `system` is null where no system activity is recorded.
void PrepareWaits(SystemPrograms* system, Pid pid);

}  // namespace proftrace
