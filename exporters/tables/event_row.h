// The columns of the table `events`: one row for each event, in the order of their starts, which is
// that of their ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "exporters/tables/column.h"

namespace proftrace {

// Texts are already in the form of the output that the rows are made for, because millions of rows
// share them.
struct EventRow {
  uint64_t id = 0;
  std::optional<uint64_t> parent_id;
  uint64_t depth = 0;
  PathPieces path;
  CellText name;
  CellText overload_name;
  CellText category;
  CellText scope;
  uint32_t pid = 0;
  std::optional<uint32_t> tid;
  CellText thread_name;
  int64_t start_ns = 0;
  std::optional<int64_t> duration_ns;
  std::optional<int64_t> self_ns;
  CellText device_type;
  std::optional<int64_t> device_index;
  std::optional<uint32_t> stream;
  std::optional<uint32_t> correlation_id;
  std::optional<uint64_t> external_id;
  std::optional<uint64_t> sequence_nr;
  std::optional<uint64_t> fwd_tid;
  bool is_async = false;
  std::optional<int64_t> step;
  CellText input_shapes;
  CellText input_types;
  CellText input_strides;
  CellText concrete_inputs;
  std::optional<int64_t> cpu_memory_bytes;
  std::optional<int64_t> self_cpu_memory_bytes;
  std::optional<int64_t> device_memory_bytes;
  std::optional<int64_t> self_device_memory_bytes;
  std::optional<int64_t> flops;
  std::optional<int64_t> on_cpu_ns;
  std::optional<int64_t> off_cpu_ns;
  CellText module_path;
  CellText module_class;
  CellText stack;
  CellText args;
  CellText end;
};

template <typename Visit>
[[gnu::always_inline]] inline void ForEachCell(const EventRow& row, Visit&& visit) {
  visit(Column{"id", "The row's number, from 0. It ascends with `start_ns`."}, row.id);
  visit(Column{"parent_id", "The `id` of the row that this one lies in; empty at the top level."},
        row.parent_id);
  visit(Column{"depth", "How many rows lie around it; 0 at the top level."}, row.depth);
  visit(
      Column{
          "path",
          "The names from the top level to this row, joined by `/`. A path has at most 512 names."},
      row.path);
  visit(Column{"name",
               "The name, as torch.profiler has it: `aten::mm`, `MmBackward0`, the text of an "
               "annotation."},
        row.name);
  visit(Column{"overload_name", "The overload of an operator, `Tensor` for example."},
        row.overload_name);
  visit(Column{"category", "What kind of row it is: see the list below."}, row.category);
  visit(Column{"scope",
               "torch's RecordScope of the row: see the list below. System activity has none."},
        row.scope);
  visit(Column{"pid", "The process."}, row.pid);
  visit(Column{"tid", "The thread, by the number that the operating system gave it."}, row.tid);
  visit(Column{"thread_name", "The thread's name."}, row.thread_name);
  visit(Column{"start_ns", "When it began: nanoseconds since 1970 (Unix time)."}, row.start_ns);
  visit(Column{"duration_ns", "How long it took. Empty for instants."}, row.duration_ns);
  visit(Column{"self_ns",
               "The duration without what the rows directly below it took (operators, annotations, "
               "autograd rows)."},
        row.self_ns);
  visit(Column{"device_type", "`CPU`, or `CUDA` for what a GPU did."}, row.device_type);
  visit(Column{"device_index", "The GPU's number in that process."}, row.device_index);
  visit(Column{"stream", "The CUDA stream of a kernel, copy or memset."}, row.stream);
  visit(Column{"correlation_id",
               "The number that a CUDA call and the work that it launched have in common."},
        row.correlation_id);
  visit(
      Column{"external_id", "The number of the operator that asked for it, as in torch's traces."},
      row.external_id);
  visit(Column{"sequence_nr",
               "The autograd sequence number: a forward operator and its backward node have the "
               "same one."},
        row.sequence_nr);
  visit(Column{"fwd_tid", "For a backward node: the thread of its forward operator."}, row.fwd_tid);
  visit(Column{"is_async",
               "1 for a row that ended on another thread than it began on, and for the works of "
               "torch.distributed; else 0."},
        row.is_async);
  visit(Column{"step", "The number of the job's step in which the row began."}, row.step);
  visit(Column{"input_shapes",
               "`--record-shapes`: sizes of the inputs, as a JSON list; a list of tensors is a "
               "list of sizes."},
        row.input_shapes);
  visit(Column{"input_types", "`--record-shapes`: the types of the inputs, as a JSON list."},
        row.input_types);
  visit(Column{"input_strides",
               "`--record-shapes`: strides of the tensors, as a JSON list like `input_shapes`."},
        row.input_strides);
  visit(Column{"concrete_inputs",
               "`--record-shapes`: numbers, flags and lists of numbers that were passed, as a JSON "
               "list of texts."},
        row.concrete_inputs);
  visit(Column{"cpu_memory_bytes",
               "`--profile-memory`: CPU memory allocated less freed in the row and in what lies "
               "below it."},
        row.cpu_memory_bytes);
  visit(Column{"self_cpu_memory_bytes", "`--profile-memory`: the same in the row alone."},
        row.self_cpu_memory_bytes);
  visit(Column{"device_memory_bytes",
               "`--profile-memory`: GPU memory allocated less freed in the row and in what lies "
               "below it."},
        row.device_memory_bytes);
  visit(Column{"self_device_memory_bytes", "`--profile-memory`: the same in the row alone."},
        row.self_device_memory_bytes);
  visit(Column{"flops", "`--with-flops`: torch's estimate of floating-point operations."},
        row.flops);
  visit(
      Column{"on_cpu_ns", "`--activities sched`: how long the thread ran on a CPU during the row."},
      row.on_cpu_ns);
  visit(
      Column{"off_cpu_ns",
             "`--activities sched`: how long it did not. `on_cpu_ns + off_cpu_ns = duration_ns`."},
      row.off_cpu_ns);
  visit(Column{"module",
               "`--with-stack`: the attribute path of the innermost nn.Module, "
               "`encoder.layers.0.linear1`. The model itself has the empty path."},
        row.module_path);
  visit(Column{"module_class",
               "`--with-stack`: its class with a number, as in torch's traces: `Linear_3`."},
        row.module_class);
  visit(Column{"stack",
               "`--with-stack`: the Python frames, `file.py(line): function`, joined by `;`, the "
               "outermost first. The line is the one that runs."},
        row.stack);
  visit(
      Column{
          "args",
          "What rows of this kind have besides, as a JSON object. Operators have torch's `Module "
          "Hierarchy` alone, where TorchScript runs them (`--with-modules`)."},
      row.args);
  visit(Column{"end", "How the row ended: see the list below."}, row.end);
}

}  // namespace proftrace
