#include "exporters/tables/process_rows.h"

namespace proftrace {

void ForEachProcessRow(const Timeline& timeline, absl::FunctionRef<bool(const ProcessRow&)> add) {
  for (const Target& target : timeline.info().targets) {
    ProcessRow row;
    row.pid = Raw(target.pid);
    row.ppid = Raw(target.ppid);
    row.comm = target.comm;
    row.exe = target.exe;
    for (const std::string& argument : target.cmdline) {
      row.cmdline += (row.cmdline.empty() ? "" : " ") + argument;
    }
    row.rank = target.rank;
    row.world_size = target.world_size;
    row.local_rank = target.job.local_rank;
    row.torch_version = target.torch_version;
    row.python_version = target.python_version;
    row.cuda_version = target.cuda_version;
    row.threads = target.threads;
    row.followed = target.followed;
    if (target.probes_on_ns != 0) row.probes_on_ns = timeline.ToUnixNs(target.probes_on_ns);
    row.operators_probed = target.operator_count;
    if (!target.namespace_pids.empty()) {
      row.namespace_pid = target.namespace_pids.back();
      row.start_ticks = static_cast<int64_t>(target.start_ticks);
    }
    if (!add(row)) return;
  }
}

}  // namespace proftrace
