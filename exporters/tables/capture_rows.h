// The rows and columns of the table `captures`: one row, the recording as a whole.
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "exporters/tables/column.h"
#include "userspace/model/timeline.h"

namespace proftrace {

struct CaptureRow {
  std::string_view host;
  std::string_view boot_id;
  std::string_view machine_id_hash;
  std::string_view kernel;
  uint32_t cpus = 0;
  std::string_view trace_name;
  std::string_view proftrace_version;
  std::string_view tier;
  std::optional<int64_t> start_ns;
  std::optional<int64_t> duration_ns;
  std::optional<int64_t> attach_ns;
  std::optional<int64_t> detach_ns;
  std::optional<bool> has_loss;
};

template <typename Visit>
void ForEachCell(const CaptureRow& row, Visit&& visit) {
  visit(Column{"host", "The host's name."}, row.host);
  visit(Column{"boot_id",
               "The boot of the host: clocks of recordings with the same one are one clock."},
        row.boot_id);
  visit(Column{"machine_id_hash", "A hash of the host's machine id."}, row.machine_id_hash);
  visit(Column{"kernel", "The kernel's release."}, row.kernel);
  visit(Column{"cpus", "CPUs of the host."}, row.cpus);
  visit(Column{"trace_name", "The recording's name, if it was given one."}, row.trace_name);
  visit(Column{"proftrace_version", "The version that recorded."}, row.proftrace_version);
  visit(Column{"tier", "`bpf` or `patch`."}, row.tier);
  visit(Column{"start_ns", "When the window began (Unix time)."}, row.start_ns);
  visit(Column{"duration_ns", "How long the window was; empty where the recorder was killed."},
        row.duration_ns);
  visit(Column{"attach_ns", "From the start of the program until every probe was live."},
        row.attach_ns);
  visit(Column{"detach_ns", "From the end of the window until no probe was left."}, row.detach_ns);
  visit(Column{"has_loss",
               "1 where anything was lost that was asked for; else 0. Which counter: `losses`."},
        row.has_loss);
}

// Gives the rows to `add`, until it returns false.
void ForEachCaptureRow(const Timeline& timeline, absl::FunctionRef<bool(const CaptureRow&)> add);

}  // namespace proftrace
