// The rows and columns of the table `processes`: one row a recorded process.
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "exporters/tables/column.h"
#include "userspace/model/timeline.h"

namespace proftrace {

struct ProcessRow {
  uint32_t pid = 0;
  uint32_t ppid = 0;
  std::string_view comm;
  std::string_view exe;
  std::string cmdline;
  std::optional<int64_t> rank;
  std::optional<int64_t> world_size;
  std::optional<int64_t> local_rank;
  std::string_view torch_version;
  std::string_view python_version;
  std::string_view cuda_version;
  uint32_t threads = 0;
  bool followed = false;
  std::optional<int64_t> probes_on_ns;
  uint32_t operators_probed = 0;
  std::optional<int64_t> namespace_pid;
  std::optional<int64_t> start_ticks;
};

template <typename Visit>
void ForEachCell(const ProcessRow& row, Visit&& visit) {
  visit(Column{"pid", "The process."}, row.pid);
  visit(Column{"ppid", "Its parent."}, row.ppid);
  visit(Column{"comm", "The process's name."}, row.comm);
  visit(Column{"exe", "Its program."}, row.exe);
  visit(Column{"cmdline", "Its command line: the arguments, with blanks in between."}, row.cmdline);
  visit(Column{"rank", "Its rank in the job."}, row.rank);
  visit(Column{"world_size", "How many ranks the job has."}, row.world_size);
  visit(Column{"local_rank", "Its rank on this host."}, row.local_rank);
  visit(Column{"torch_version", "The version of PyTorch."}, row.torch_version);
  visit(Column{"python_version", "The version of Python."}, row.python_version);
  visit(Column{"cuda_version", "The version of CUDA that PyTorch was built for."},
        row.cuda_version);
  visit(Column{"threads", "Threads that it had."}, row.threads);
  visit(Column{"followed", "1 for a child that was found while recording; else 0."}, row.followed);
  visit(Column{"probes_on_ns", "When all probes were live in it (Unix time)."}, row.probes_on_ns);
  visit(Column{"operators_probed", "Operators with a probe."}, row.operators_probed);
  visit(Column{"namespace_pid", "Its number in its own PID namespace."}, row.namespace_pid);
  visit(Column{"start_ticks",
               "When it was started, in clock ticks since boot: it tells a PID apart that is used "
               "again."},
        row.start_ticks);
}

// Gives the rows to `add`, until it returns false.
void ForEachProcessRow(const Timeline& timeline, absl::FunctionRef<bool(const ProcessRow&)> add);

}  // namespace proftrace
