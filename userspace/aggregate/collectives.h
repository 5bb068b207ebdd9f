// Finds the collective that a kernel of NCCL belongs to, by torch's row record_param_comms. Kineto
// writes the collective into the kernel's args (ChromeTraceLogger, output_json.cpp), where readers
// of traces look for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "userspace/model/timeline.h"

namespace proftrace {

// A collective. Its number, group and name are the row's own where torch recorded them
// (OperatorInputs::keywords). Sizes of input and output are those in ProcessGroupNCCL.cpp's
// RECORD_PARAM_COMMS_DATA: gather's output is its input times the size of the group, scatter's
// input is its output times that size, and both have the root's rank. This holds for the wheel of
// 2.11 (the arguments of ParamCommsDebugInfo there); before 2.3 the two sizes of scatter are
// exchanged (the source of 2.2).
//
// Sizes are in elements, not in bytes.
struct Collective {
  std::string name;  // "allreduce", "_allgather_base": as in ProcessGroupNCCL
  std::string type;  // "Float", "BFloat16": c10::ScalarType's name; empty = not known
  std::optional<int64_t> in_elements;
  std::optional<int64_t> out_elements;
  std::optional<int64_t> group_size;
  std::optional<int64_t> rank;  // as torch has it: the process's rank in the group, or the root's
  std::optional<int64_t> sequence;  // the same number for all members of the group
  std::optional<bool> is_p2p;       // such calls have a number series of their own
  std::string in_split;             // "[1, 2]"; "[]" where all ranks get the same size
  std::string out_split;            // as in_split, for the output
  // The process group's name: the one in the row, or else the name of the only group that fits.
  std::string group;
  std::string group_description;
  // The first of the members' ranks in the job, and their distance, where the ranks are a series.
  std::optional<int64_t> first_rank;
  std::optional<int64_t> stride;
  std::string ranks;  // "[0, 1]": ranks in the job, at most 30 and "..."; empty = not known
  std::optional<int64_t> source;       // of a receive: the sender's rank in the job
  std::optional<int64_t> destination;  // of a send: the receiver's rank in the job

  // Returns whether the five facts are known that Kineto has of every collective.
  bool is_whole() const {
    return !name.empty() && !type.empty() && in_elements && out_elements && group_size;
  }
};

// Returns the collective that the row `row` stands for. `kernel`: the name of a kernel that was
// launched in the row, demangled if possible, which may tell the type; or empty. nullopt: the row
// is no record_param_comms, its inputs were not recorded (--record-shapes), or neither the row nor
// the operator around it says which collective it is.
std::optional<Collective> CollectiveOfRow(const Timeline& timeline, SpanId row,
                                          std::string_view kernel);

// Returns the collective of a kernel that was launched in the row `op`, as CollectiveOfRow() does.
// nullopt also where the collective is not whole. torch does not record the output's size; it is
// computed by the kind of collective, or by the inputs of the operator around the row.
std::optional<Collective> CollectiveOf(const Timeline& timeline, SpanId op,
                                       std::string_view kernel);

// The facts of a collective that a work's row ("gloo:all_reduce") does not tell itself. They are
// those of the operator of c10d that made the work.
struct WorkFacts {
  std::string type;  // as Collective::type
  std::optional<int64_t> in_elements;
  std::optional<int64_t> out_elements;
  std::optional<int64_t> rank;         // of a root or a peer, in the group; nullopt: there is none
  std::optional<int64_t> source;       // of a receive: the sender's rank in the job
  std::optional<int64_t> destination;  // of a send: the receiver's rank in the job
};

// Returns the facts of the work whose row is `row`; all are empty where the row is no work's, where
// inputs were not recorded (--record-shapes), or for a barrier, which has none.
//
// Elements are those of the rank's own tensors: a rank that is not the root of a gather gets none,
// and one that is not the root of a scatter gives none.
WorkFacts FactsOfWork(const Timeline& timeline, SpanId row);

}  // namespace proftrace
