// Puts the records of GPU agents together with the spans: calls of CUDA become rows among the
// operators, and each device activity is linked to the call that asked for it and to the operator
// around that call.
//
// Use: Add() every event, then PrepareCalls(); then, while spans are built in order of time,
// PlaceCallsBefore() for each event; then Finish().
//
// The rules:
// - a correlation id belongs to a process and may be used again: an activity belongs to the last
//   call with its id that began before it.
// - device work without its call (it was launched before the recording, or the call's record was
//   lost) is kept and counted as unlinked. If it has the same external correlation id as a call
//   that was recorded, it is linked to that call's operator.
// - device work of a call in the window is kept, however late it runs; other work only if it begins
//   in the window.
// - work is charged to the innermost row around its call that is no annotation, as Kineto does
//   (CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0), and to the innermost annotation (…_CUSTOM1).
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "userspace/decode/device_decoder.h"
#include "userspace/decode/device_event.h"
#include "userspace/merge/span_builder.h"
#include "userspace/model/chunk_store.h"
#include "userspace/model/timeline.h"
#include "userspace/stats/ledger.h"

namespace proftrace {

// The time in which a process is recorded.
struct RecordedWindow {
  int64_t start_ns = 0;
  std::optional<int64_t> end_ns;
};

class DeviceMerger {
 public:
  // `decoder`: the decoder that makes the added events. It must know all names when PrepareCalls()
  // is called. Counts into `ledger`: merged, unlinked, outside_window, unnamed, names_cut.
  DeviceMerger(const DeviceDecoder& decoder, const std::string& spill_directory,
               TimelineBuilder* timeline, DeviceLedger* ledger);

  void SetWindow(RecordedWindow window) { window_ = window; }
  // Sets when the recording of a process begins, if that is later than the window's begin.
  void SetProcessStart(Pid pid, int64_t start_ns);

  // Adds an event. This and all functions below fail only when the disk for the spill is full.
  absl::Status Add(const DeviceEvent& event);
  absl::Status PrepareCalls();
  // Makes rows of the calls that began before `time_ns`.
  absl::Status PlaceCallsBefore(int64_t time_ns, SpanBuilder* spans);
  // Links all activities and adds them to the timeline. To be called after SpanBuilder::Finish(),
  // when all calls are placed.
  absl::Status Finish();

  // Return the numbers of records that CUPTI dropped and that agents could not read, by process, as
  // the records themselves report them.
  const std::map<uint32_t, uint64_t>& cupti_dropped() const { return cupti_dropped_; }
  const std::map<uint32_t, uint64_t>& unread() const { return unread_; }

 private:
  static constexpr uint32_t kNone = 0xffffffffu;
  using CorrelationKey = std::pair<uint32_t, uint32_t>;  // process, correlation id

  struct PlacedCall {
    DeviceCall call;
    CallPlace place;
    uint32_t previous = kNone;  // the call before this one with the same correlation id
    bool is_outside = false;
    bool has_work = false;
    uint8_t reserved[2] = {};
  };

  absl::Status AddActivity(const DecodedActivity& decoded);
  absl::Status AddMarker(const DeviceActivity& activity);
  // Joins the begins and ends of markers to ranges.
  absl::Status PairMarkers();
  void AddClock(const ClockLook& look);
  absl::Status PlaceCall(uint32_t index, SpanBuilder* spans);
  struct LabelEntry {
    LabelId id{};
    bool is_shown = true;
    bool is_named = true;
  };
  struct NameEntry {
    DeviceNameId id{};
    bool is_named = true;
  };
  LabelEntry LabelOf(const DeviceCall& call);
  int64_t StartOf(Pid pid) const;
  bool IsOutside(Pid pid, int64_t start_ns) const;
  // Returns the call that asked for the activity, an index into calls_.
  uint32_t FindCall(const DeviceActivity& activity) const;
  // Notes the place of each call with an external correlation, for activities with the same id that
  // have no operator by their own call.
  void LearnExternalPlaces();
  // Links an activity to its call. Returns false where the activity lies outside the window.
  bool Link(DeviceActivity* activity);
  void FillSync(DeviceActivity* activity) const;
  absl::Status AddToTimeline(DeviceActivity activity);
  void FinishFacts();
  DeviceNameId NameOf(const DeviceActivity& activity);
  absl::Status Charge(const DeviceActivity& activity);

  const DeviceDecoder& decoder_;
  TimelineBuilder* timeline_;
  DeviceLedger* ledger_;
  RecordedWindow window_;
  absl::flat_hash_map<uint32_t, int64_t> process_starts_;

  ChunkStore<PlacedCall> calls_;
  std::vector<uint32_t> call_order_;
  size_t next_call_ = 0;
  absl::flat_hash_map<CorrelationKey, uint32_t> last_calls_;  // placed ones
  absl::flat_hash_map<uint64_t, LabelEntry> labels_;          // by name and domain

  // Activities in the order of arrival; `name` is a DeviceNameRef.
  DeviceActivityStore activities_;
  DeviceActivityStore markers_;  // begins and ends of ranges
  // By kind and name. Names that are not in a record are made of parts: these have the parts
  // instead.
  std::map<std::tuple<uint8_t, uint32_t, uint32_t>, NameEntry> names_;

  std::map<std::pair<uint32_t, uint32_t>, uint32_t> context_devices_;  // by process and context
  std::map<std::pair<uint32_t, uint32_t>, DecodedDevice> devices_;     // by process and number
  std::map<uint32_t, DeviceClock> clocks_;
  std::map<uint32_t, uint64_t> cupti_dropped_;
  std::map<uint32_t, uint64_t> unread_;
  absl::flat_hash_map<CorrelationKey, uint64_t> external_ids_;
  absl::flat_hash_map<std::pair<uint32_t, uint64_t>, CallPlace> external_places_;
  struct RecordedEvent {
    uint32_t correlation = 0;
    uint32_t stream = kNowhere;
  };
  // The cudaEventRecords by process, context and event. They ascend by correlation id when
  // PrepareCalls() has returned.
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, std::vector<RecordedEvent>> recorded_events_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, DeviceAnnotation> annotations_;
};

}  // namespace proftrace
