// Tells who reads the Python of a process how it lies in memory: the kernel's side and the
// collector of modules (--with-stack), the jumps, the sampler (--sample), and what tells locks from
// other waits (--activities sched).
#pragma once

#include <string>
#include <vector>

#include "bpf/abi/script_records.h"
#include "userspace/capture/bpf_programs.h"
#include "userspace/capture/module_collector.h"
#include "userspace/capture/patch_recorder.h"
#include "userspace/capture/sampler.h"
#include "userspace/capture/system_programs.h"
#include "userspace/model/ids.h"
#include "userspace/model/recording.h"

namespace proftrace {

// Sets what of `target` is about stacks; to be called before the process's first probe. Adds to
// `gaps` why there are none, or not of all its Python. `sampler`: null where nothing is sampled.
// `patch`: null where there are no jumps. `scripts`: as ScriptCollector::Prepare() returns it.
void PrepareStacks(BpfPrograms* programs, PatchRecorder* patch,
                   const abi::pt_script_layout& scripts, ModuleCollector* modules, Sampler* sampler,
                   Pid pid, Target* target, std::vector<Unsupported>* gaps);
// Tells the sampler alone of a process whose operators are not recorded. Returns what is missing.
std::vector<Unsupported> PrepareSamples(Sampler* sampler, Pid pid);
// What the process's threads wait for, if its Python is known. `system`: null where nothing of the
// system is recorded.
void PrepareWaits(SystemPrograms* system, Pid pid);

}  // namespace proftrace
