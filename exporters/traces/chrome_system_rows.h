// Writes the rows of system activity in the chrome trace: system calls, time off the CPU and page
// faults as "X" rows among the spans of their thread, requests of io_uring as pairs of async
// events, and the states of threads as Perfetto reads them (json_trace_parser.cc, phase T).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exporters/sinks/json_writer.h"
#include "exporters/sinks/text_writer.h"
#include "exporters/traces/open_slices.h"
#include "userspace/model/timeline.h"

namespace proftrace {

class ChromeSystemRows {
 public:
  // All arguments must outlive this. `thread_parts`: for each thread the members with its process
  // and its number. `first_number`: the "Ev Idx" of the first row.
  ChromeSystemRows(const Timeline& timeline, const std::vector<std::string>& thread_parts,
                   int64_t offset_ns, uint64_t first_number, TextWriter* writer);

  // Writes the row of an event, and the states of its thread up to its end. Events must come in
  // their order. `slice`: the row as it is written, so that it lies in the row around it.
  // `clipped_ns`: the time that was cut off for this, which is told in the args.
  void Write(uint32_t index, const OpenSlices::Slice& slice, int64_t clipped_ns);
  // Writes a request, which lies in no row and does not change its thread's state.
  void WriteRequest(uint32_t index);

  // Writes the state of each thread after its last time off the CPU, up to its last row, because
  // the thread may have ended then. To be called after all events.
  void WriteLastStates();

 private:
  // The known state of a thread after its last time off the CPU.
  struct ThreadState {
    bool has_begun = false;
    bool is_known = false;  // the thread ran on `cpu` from `since_ns` on
    int64_t since_ns = 0;
    uint16_t cpu = 0;
    int64_t seen_ns = 0;  // the end of the last row
  };

  int64_t Ts(int64_t time_ns) const { return std::max<int64_t>(time_ns + offset_ns_, 0); }
  void WriteStates(const SystemEvent& event);
  // Writes a thread state as Perfetto reads it. `args`: the members of a JSON object, without
  // braces.
  void WriteState(ThreadIndex thread, std::string_view state, int64_t start_ns, int64_t end_ns,
                  std::string_view args);
  void WriteRunning(ThreadIndex thread, int64_t start_ns, int64_t end_ns, uint16_t cpu);
  // Opens a row and writes the members before its args.
  void BeginRow(std::string_view phase, const SystemEvent& event, int64_t ts_ns,
                JsonStream* json) const;
  static void EndRow(JsonStream* json);

  const Timeline& timeline_;
  const std::vector<std::string>& thread_parts_;
  int64_t offset_ns_;  // from CLOCK_MONOTONIC to the trace's time
  uint64_t first_number_;
  TextWriter& writer_;
  bool has_all_states_;              // nothing was lost: between times off the CPU threads ran
  std::vector<ThreadState> states_;  // by thread
};

}  // namespace proftrace
