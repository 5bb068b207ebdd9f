// The columns of a fleet's table `captures`. A row is one input.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "exporters/tables/column.h"

namespace proftrace {

struct FleetCaptureRow {
  std::string_view source;
  bool is_main = false;
  std::string_view path;
  int64_t bytes = 0;
  std::string_view boot_id;
  std::string_view kernel;
  std::optional<int64_t> cpus;
  std::string_view gpu;
  std::optional<int64_t> pid;
  std::optional<int64_t> world_size;
  std::optional<int64_t> local_rank;
  std::string_view torch_version;
  std::string_view cuda_version;
  std::string_view proftrace_version;
  std::optional<int64_t> start_ns;
  std::optional<int64_t> end_ns;
  std::optional<int64_t> local_start_ns;
  std::optional<int64_t> offset_ns;
  std::optional<int64_t> drift_ppb;
  std::optional<int64_t> bound_ns;
  std::optional<int64_t> estimate_error_ns;
  std::string_view clock_method;
  std::optional<int64_t> timeline;
  int64_t events = 0;
  std::optional<int64_t> lost;
  int64_t resolution_ns = 0;
  std::optional<Decimal> overhead_percent;
  int64_t steps = 0;
  std::optional<Decimal> step_confidence;
  std::optional<int64_t> step_offset;
  std::string_view unsupported;
  std::string remarks;
};

template <typename Visit>
void ForEachCell(const FleetCaptureRow& row, Visit&& visit) {
  visit(Column{"source", "`proftrace`, `torch.profiler`, `DFTracer`, `Nsight Systems`."},
        row.source);
  visit(Column{"is_main",
               "1 for the input whose rows stand for its process in `steps` and `collectives`; 0 "
               "where another input of the same process does."},
        row.is_main);
  visit(Column{"path", "The input."}, row.path);
  visit(Column{"bytes", "Its size."}, row.bytes);
  visit(Column{"boot_id", "The boot of the host."}, row.boot_id);
  visit(Column{"kernel", "The kernel's release."}, row.kernel);
  visit(Column{"cpus", "CPUs of the host."}, row.cpus);
  visit(Column{"gpu", "The name of the process's first GPU."}, row.gpu);
  visit(Column{"pid", "The process with the rank."}, row.pid);
  visit(Column{"world_size", "How many ranks the job has."}, row.world_size);
  visit(Column{"local_rank", "The rank on its host."}, row.local_rank);
  visit(Column{"torch_version", "The version of PyTorch."}, row.torch_version);
  visit(Column{"cuda_version", "The version of CUDA that PyTorch was built for."},
        row.cuda_version);
  visit(Column{"proftrace_version", "The version that recorded."}, row.proftrace_version);
  visit(Column{"start_ns", "The begin of the recording on the common clock."}, row.start_ns);
  visit(Column{"end_ns", "Its end."}, row.end_ns);
  visit(Column{"local_start_ns",
               "Its begin by its own host's clock, as in the tables that `align` does not write."},
        row.local_start_ns);
  visit(Column{"offset_ns", "What must be added to times of those tables, at `local_start_ns`."},
        row.offset_ns);
  visit(Column{"drift_ppb", "By how much that grows: nanoseconds a second."}, row.drift_ppb);
  visit(Column{"bound_ns",
               "The most that its common times can be wrong by, proved; 0 on the reference's boot, "
               "empty: nothing is proved, or it is not aligned."},
        row.bound_ns);
  visit(Column{"estimate_error_ns", "What they likely are wrong by."}, row.estimate_error_ns);
  visit(Column{"clock_method",
               "`one boot`, `collectives`, `realtime`, `none`; `not aligned`: its times cannot be "
               "compared with others'."},
        row.clock_method);
  visit(Column{"timeline", "Times of different timelines cannot be compared; the first one is 0."},
        row.timeline);
  visit(Column{"events", "Rows of the input."}, row.events);
  visit(Column{"lost", "Records that were lost; empty where that is not known."}, row.lost);
  visit(Column{"resolution_ns", "What its time stamps are whole multiples of."}, row.resolution_ns);
  visit(Column{"overhead_percent", "What recording cost the job."}, row.overhead_percent);
  visit(Column{"steps", "How many steps of the driving thread were found."}, row.steps);
  visit(Column{"step_confidence", "How sure it is that these are steps: 0 to 1."},
        row.step_confidence);
  visit(Column{"step_offset", "What was added to its own numbers of steps."}, row.step_offset);
  visit(Column{"unsupported", "What was not recorded, and why."}, row.unsupported);
  visit(Column{"remarks", "What the input lacks: sentences."}, row.remarks);
}

}  // namespace proftrace
