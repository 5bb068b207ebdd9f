// Collects what a trace in JSON tells about its process, from the events and the members beside
// them. It is used for files of Kineto and DFTracer, and for a capture's rows in Kineto's form.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "userspace/collectives/collective_rows.h"
#include "userspace/collectives/job_facts.h"
#include "userspace/collectives/source_input.h"
#include "userspace/fleet_sources/json_splitter.h"
#include "userspace/fleet_sources/trace_event.h"

namespace proftrace {

// Reads events as they come out of a JsonSplitter, and counts those that cannot be passed on.
class TraceEvents {
 public:
  // `splitter` says where the text is wrong; it must outlive this.
  TraceEvents(const JsonSplitter* splitter, TraceTimes times)
      : splitter_(splitter), times_(times) {}

  // Calls `take` with the event, unless it has no place on a timeline.
  template <typename Take>
  absl::Status Read(std::string_view text, uint64_t offset, const Take& take) {
    size_t wrong_at = 0;
    switch (reader_.Read(text, times_, &event_, &wrong_at)) {
      case TraceEventReader::Outcome::kWrong:
        return splitter_->Wrong(offset + wrong_at, "the rest of an event");
      case TraceEventReader::Outcome::kUnplaced:
        if (unplaced_++ == 0) first_unplaced_ = offset;
        return absl::OkStatus();
      case TraceEventReader::Outcome::kEvent:
        return take(event_);
    }
    return absl::OkStatus();
  }

  void set_unit(int64_t unit_ns) { times_.unit_ns = unit_ns; }
  const TraceTimes& times() const { return times_; }
  // Adds a sentence for each kind of event that was left out or mended.
  void AddRemarks(std::vector<std::string>* remarks) const;

 private:
  const JsonSplitter* splitter_;
  TraceTimes times_;
  TraceEventReader reader_;
  SourceEvent event_;
  uint64_t unplaced_ = 0;
  uint64_t first_unplaced_ = 0;
};

class TraceFacts {
 public:
  // Takes a member beside the events.
  void TakeMember(std::string_view key, std::string_view value);
  void TakeEvent(const SourceEvent& event);
  void NoteLoss(int64_t after_ns, int64_t until_ns) { collectives_.NoteLoss(after_ns, until_ns); }

  // Returns DFTracer's unit of time, where a row has told it ("CM", time_metric).
  std::optional<int64_t> unit_ns() const { return unit_ns_; }
  // Returns baseTimeNanoseconds; nullopt: the file has none.
  std::optional<int64_t> base_ns() const { return base_ns_; }
  void set_base(int64_t base_ns) { base_ns_ = base_ns; }
  // Completes `facts`, whose kind and path are set. The events must have been taken with times that
  // do not include the base. `is_cut`: whether the end of the file is missing.
  void Finish(bool is_cut, SourceFacts* facts);

 private:
  void TakeMetadata(const SourceEvent& event);
  void FindHostInPath(SourceFacts* facts) const;

  std::string head_;
  std::optional<int64_t> base_ns_;
  std::optional<int64_t> unit_ns_;
  JobFacts job_;
  CollectiveRows collectives_;
  std::string host_;
  std::optional<int64_t> process_pid_;  // the PID of rows of the process itself
  std::optional<int64_t> first_pid_;
  std::optional<int64_t> first_ns_;
  std::optional<int64_t> last_ns_;
  uint64_t events_ = 0;
  bool has_fractions_ = false;  // whether times have fractions of microseconds
};

}  // namespace proftrace
