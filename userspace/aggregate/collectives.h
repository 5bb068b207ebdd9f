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

// What the row itself says comes first: number, group and name are recorded with it where torch has
// them (OperatorInputs::keywords). What goes in and comes out is by ProcessGroupNCCL.cpp's
// RECORD_PARAM_COMMS_DATA: gather has its input and that times the group, scatter its output times
// the group and its output (the root's rank in both). So it is compiled into the wheel of 2.11 (the
// arguments of ParamCommsDebugInfo there); before 2.3 a scatter's two are the other way round (the
// source of 2.2).
//
// Elements, not bytes.
struct Collective {
  std::string name;  // "allreduce", "_allgather_base": as in ProcessGroupNCCL
  std::string type;  // "Float", "BFloat16": c10::ScalarType's name; empty = not known
  std::optional<int64_t> in_elements;
  std::optional<int64_t> out_elements;
  std::optional<int64_t> group_size;
  std::optional<int64_t> rank;      // as torch has it: the process's in the group, or the root's
  std::optional<int64_t> sequence;  // all members of the group count alike
  std::optional<bool> is_p2p;       // such calls have a number series of their own
  std::string in_split;             // "[1, 2]"; "[]" where all ranks get alike
  std::string out_split;            // the same for the output
  // The process group's name: the row's own, else that of the only group that fits.
  std::string group;
  std::string group_description;
  // Where its members' ranks in the job are a series: the first one, and how far they are apart.
  std::optional<int64_t> first_rank;
  std::optional<int64_t> stride;
  std::string ranks;              // "[0, 1]", of the job, at most 30 and "..."; empty = not known
  std::optional<int64_t> source;  // of a receive: the peer's rank in the job
  std::optional<int64_t> destination;  // the same of a send

  // Whether the five facts are there that Kineto has of every collective.
  bool is_whole() const {
    return !name.empty() && !type.empty() && in_elements && out_elements && group_size;
  }
};

// Returns the collective that the row `row` stands for. `kernel`: the name of a kernel that was
// launched in it (demangled, or what there is), which may tell the type; or empty. nullopt: the row
// is no record_param_comms, what it was called with was not recorded (--record-shapes), or neither
// the row nor the operator around it says which collective it is.
std::optional<Collective> CollectiveOfRow(const Timeline& timeline, SpanId row,
                                          std::string_view kernel);

// Returns the collective of a kernel that was launched in the row `op`, as CollectiveOfRow() does.
// nullopt also where it is not whole: torch keeps the output's size to itself. It follows from the
// kind of collective, or from what the operator around the row was called with.
std::optional<Collective> CollectiveOf(const Timeline& timeline, SpanId op,
                                       std::string_view kernel);

}  // namespace proftrace
