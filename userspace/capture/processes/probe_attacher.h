// Puts the kernel's probes into the modules of one process, all of a module's or none.
#pragma once

#include <absl/status/status.h>

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "symbols/probe_plan.h"
#include "symbols/process/held_file.h"
#include "userspace/capture/kernel/attach.h"
#include "userspace/capture/kernel/bpf_programs.h"
#include "userspace/capture/kernel/operator_links.h"
#include "userspace/capture/processes/gap_list.h"
#include "userspace/model/ids.h"

namespace proftrace {

// May be used by several threads. Its lock guards only what it knows of layers of overlayfs, and is
// never held while another lock is taken.
class ProbeAttacher {
 public:
  // With `beside_jumps`, processes have jumps as well, and probes where no jump can be. `programs`
  // and `gaps` must outlive the attacher.
  ProbeAttacher(BpfPrograms* programs, GapList* gaps, bool beside_jumps)
      : programs_(programs), gaps_(gaps), beside_jumps_(beside_jumps) {}

  // Attaches probes at the points of `modules`. Adds the links that it makes to `links`, also where
  // it fails in the end. Where there is no eBPF, it adds gaps for the rows that only probes could
  // record.
  absl::Status Attach(Pid pid, const ProbePlan& plan, std::vector<ModulePlan> modules,
                      ProcessLinks* links, AttachReport* report);

 private:
  absl::Status AttachOne(Pid pid, const ProbePlan& plan, const ModulePlan& module,
                         ProcessLinks* links, AttachReport* report);
  // Attaches all of the module's links or none.
  absl::Status AttachFile(Pid pid, const ProbePlan& plan, ModulePlan module, ProcessLinks* links,
                          AttachReport* report);
  // Attaches to a file on overlayfs, in the layer that the process has mapped (overlay_layers.h).
  absl::Status AttachLayer(Pid pid, const ProbePlan& plan, const ModulePlan& module,
                           ProcessLinks* links, AttachReport* report);
  // Returns the files in which the module's code may lie: the one that a process was found to have
  // mapped, if any, and then the one that was analysed.
  std::vector<std::shared_ptr<const HeldFile>> FilesOf(const ModulePlan& module);
  // Fails, or adds a gap where jumps may still record the module, for a file that no probe of ours
  // reaches.
  absl::Status RefuseLayer(Pid pid, const ModulePlan& module);

  BpfPrograms* programs_;
  GapList* gaps_;
  const bool beside_jumps_;
  std::mutex mutex_;
  // Files in lower layers of overlayfs that processes were found to have mapped, by the file that
  // was analysed.
  std::map<std::shared_ptr<const HeldFile>, std::shared_ptr<const HeldFile>> layers_;
};

}  // namespace proftrace
