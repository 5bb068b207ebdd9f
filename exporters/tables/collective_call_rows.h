// The rows and columns of the table `collectives`: one row a collective on one rank.
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporters/tables/collective_calls.h"
#include "exporters/tables/column.h"
#include "userspace/aggregate/steps.h"
#include "userspace/model/timeline.h"

namespace proftrace {

struct CollectiveCallRow {
  std::optional<uint32_t> pid;
  std::string_view group_key;
  std::string_view group_name;
  std::string_view group_desc;
  std::optional<int64_t> group_size;
  std::string_view members;
  std::optional<int64_t> seq;
  bool is_p2p = false;
  std::optional<int64_t> peer;
  std::string_view op;
  std::string_view dtype;
  std::optional<int64_t> in_bytes;
  std::optional<int64_t> out_bytes;
  std::optional<int64_t> step;
  std::optional<int64_t> device;
  std::optional<int64_t> stream;
  std::optional<int64_t> launch_ns;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  std::string_view source;
};

template <typename Visit>
void ForEachCell(const CollectiveCallRow& row, Visit&& visit) {
  visit(Column{"pid", "The process."}, row.pid);
  visit(Column{"group_key",
               "Of the process group: a hash of its name and ranks. Groups of one name may be "
               "different ones. Empty where the members are not known."},
        row.group_key);
  visit(Column{"group_name", "The group's name."}, row.group_name);
  visit(Column{"group_desc", "Its description."}, row.group_desc);
  visit(Column{"group_size", "How many ranks it has."}, row.group_size);
  visit(Column{"members", "Its ranks in the job: `0,1,2,3`."}, row.members);
  visit(Column{"seq", "The group's number of the collective, where it was recorded."}, row.seq);
  visit(Column{"is_p2p", "1 for send and receive; else 0."}, row.is_p2p);
  visit(Column{"peer", "The other rank of a message."}, row.peer);
  visit(Column{"op", "`allreduce`, `allgather`, `send`, …"}, row.op);
  visit(Column{"dtype", "The type of elements, as torch names it: `Float`."}, row.dtype);
  visit(Column{"in_bytes", "What goes in on this rank."}, row.in_bytes);
  visit(Column{"out_bytes", "What comes out on this rank."}, row.out_bytes);
  visit(Column{"step", "The number of the step that it began in."}, row.step);
  visit(Column{"device", "The GPU."}, row.device);
  visit(Column{"stream", "Its stream."}, row.stream);
  visit(Column{"launch_ns", "When the host asked for it (Unix time)."}, row.launch_ns);
  visit(Column{"begin_ns", "When it began on this rank."}, row.begin_ns);
  visit(Column{"end_ns", "When it ended on this rank."}, row.end_ns);
  visit(Column{"source",
               "`kernel`, `gloo` (a work on its thread), or `host`: the call that enqueues, which "
               "may return before the collective ends."},
        row.source);
}

// The texts in a process group's columns.
struct GroupTexts {
  std::string key;
  std::string name;
  std::string description;
  std::string members;
  std::optional<int64_t> size;
};

// Returns the texts of a group. `attempt`: the attempt of the job that the group belongs to, where
// groups of several attempts must be told apart.
GroupTexts TextsOfGroup(const FleetGroup& group, const std::string& description,
                        std::optional<int32_t> attempt = std::nullopt);

// Returns the row of a call without its process and step. `unix_offset_ns` is added to the times.
// `group` and `call` must outlive the row.
CollectiveCallRow RowOfCall(const SourceCall& call, const GroupTexts& group,
                            int64_t unix_offset_ns);

// Gives the rows to `add`, until it returns false: by process, and in the order of begin.
void ForEachCollectiveCallRow(const Timeline& timeline, const Steps& steps,
                              const std::vector<ProcessCalls>& processes,
                              absl::FunctionRef<bool(const CollectiveCallRow&)> add);

}  // namespace proftrace
