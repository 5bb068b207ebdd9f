// Finds what a kernel of NCCL is part of: the collective that torch's row record_param_comms stands
// for. Kineto writes it into the kernel's args (ChromeTraceLogger, output_json.cpp), where readers
// of traces look for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "userspace/model/timeline.h"

namespace proftrace {

// What goes in and comes out is by ProcessGroupNCCL.cpp's RECORD_PARAM_COMMS_DATA: gather has its
// input and that times the group, scatter its output times the group and its output (the root's
// rank in both). So it is compiled into the wheel of 2.11 (the arguments of ParamCommsDebugInfo
// there); before 2.3 a scatter's two are the other way round (the source of 2.2).
//
// Elements, not bytes. Kineto's five facts of every collective; the rest where it is known.
struct Collective {
  std::string name;  // "allreduce", "_allgather_base": as in ProcessGroupNCCL
  std::string type;  // "Float", "BFloat16": c10::ScalarType's name
  int64_t in_elements = 0;
  int64_t out_elements = 0;
  int64_t group_size = 0;
  std::optional<int64_t> rank;  // as torch has it: the process's in the group, or the root's
  std::string in_split;         // "[1, 2]"; "[]" where all ranks get alike
  std::string out_split;        // the same for the output
  std::string group;            // the process group's name, where no other one of the process fits
  std::string group_description;
  std::string ranks;  // "[0, 1]", of the job, at most 30 and "..."; empty = not known
};

// Returns the collective of the kernel `kernel` (its demangled name or what there is) that was
// launched in the row `op`. nullopt where the row is no record_param_comms, what it was called with
// was not recorded (--record-shapes), or one of the five facts does not follow from that: torch
// keeps the output's size to itself. It follows from the kind of collective, or from what the
// operator around the row was called with.
std::optional<Collective> CollectiveOf(const Timeline& timeline, SpanId op,
                                       std::string_view kernel);

}  // namespace proftrace
