#include "userspace/capture/processes/plain_processes.h"

#include <unistd.h>

#include "symbols/plan/process.h"
#include "symbols/process/process_maps.h"
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/capture/samples/python_stacks.h"
#include "userspace/capture/targets/target_info.h"
#include "userspace/wire/metadata.h"

namespace proftrace {
namespace {

// Processes that fork while the host is listed are found by the second look.
constexpr int kLooks = 2;

}  // namespace

absl::Status PlainProcesses::Add(Pid pid, bool with_descendants) {
  if (absl::Status status = programs_->TraceProcess(pid); !status.ok()) return status;
  if (absl::Status status = system_->AddProcess(pid); !status.ok()) return status;
  Describe(pid, /*followed=*/false);
  if (!with_descendants) return absl::OkStatus();
  for (const Pid child : ReadDescendants(pid)) {
    if (living_.contains(Raw(child))) continue;
    if (absl::Status status = Add(child, /*with_descendants=*/false); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status PlainProcesses::AddHost() {
  for (int look = 0; look < kLooks; ++look) {
    std::vector<Pid> found;
    for (const uint32_t number : ReadNumberedEntries("/proc")) {
      const Pid pid{number};
      if (Raw(pid) == static_cast<uint32_t>(getpid()) || living_.contains(Raw(pid))) continue;
      if (!ReadProcessInfo(pid).ok()) continue;
      if (absl::Status status = programs_->TraceProcess(pid); !status.ok()) return status;
      found.push_back(pid);
    }
    if (found.empty()) continue;
    if (absl::Status status = system_->AddProcesses(found); !status.ok()) return status;
    for (const Pid pid : found) Describe(pid, /*followed=*/false);
  }
  return absl::OkStatus();
}

void PlainProcesses::Describe(Pid pid, bool followed) {
  living_.insert(Raw(pid));
  // A process that has ended already has no samples.
  if (sampler_ != nullptr) (void)PrepareSamples(sampler_, pid);
  PrepareWaits(system_, pid);
  ProcessEntry entry;
  entry.target = DescribeProcess(pid);
  entry.target.followed = followed;
  entry.target.probes_on_ns = MonotonicNs();
  sink_->AddMetadata([&entry](MetadataWriter& writer) { writer.AddProcess(entry); });
}

std::vector<Pid> PlainProcesses::pids() const {
  std::vector<Pid> pids;
  for (const uint32_t pid : living_) pids.push_back(Pid{pid});
  return pids;
}

void PlainProcesses::CollectLastNames() {
  for (const uint32_t pid : living_) {
    for (const ThreadEntry& thread : ReadThreads(Pid{pid})) {
      sink_->AddMetadata([&thread](MetadataWriter& writer) { writer.AddThread(thread); });
    }
  }
}

}  // namespace proftrace
