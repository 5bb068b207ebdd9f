// The rows of GPUs in trace.json, as Kineto writes them (libkineto/src/CuptiActivity.h,
// output_json.cpp).
//
// The rows differ from Kineto's in these points:
//   - rows of one track always nest. Kernels of one stream that overlap (programmatic dependent
//     launch) are kept as complete events, which HTA and TraceLens need, on a second track of that
//     stream, "stream 7 (overlap)", with the same args.
//   - arrows are written only where both ends are known. All work of one CUDA graph's launch has an
//     arrow, the first one under the correlation id, as other readers expect it.
//   - several processes may share a device: those after the first have tracks of their own, "stream
//     7 (PID 4711)", and the process's number in the upper half of their correlation ids, by which
//     readers link rows and arrows.
//   - NVTX ranges and marks from CUPTI are rows of the job's process, category "nvtx", on a track
//     beside their thread's: their times are those of CUPTI's clock, so that they need not nest
//     with the thread's rows. Kineto has no such rows.
//   - processes may count their devices from 0 on and have different GPUs (CUDA_VISIBLE_DEVICES):
//     each GPU has a number of its own in the trace (device_numbers.h).
#pragma once

#include <absl/container/flat_hash_set.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "exporters/args/device_numbers.h"
#include "exporters/sinks/json_writer.h"
#include "exporters/sinks/text_writer.h"
#include "exporters/traces/open_slices.h"
#include "userspace/aggregate/device_idle.h"
#include "userspace/aggregate/steps.h"
#include "userspace/model/timeline.h"

namespace proftrace {

class ChromeDeviceRows {
 public:
  // `has`: whether the trace has the rows of a process. `offset_ns`: from CLOCK_MONOTONIC to the
  // trace's `ts`. `with_sync`: whether there are rows for waits for a device and for CUDA events.
  // All arguments must outlive this.
  ChromeDeviceRows(const Timeline& timeline, const StepRows& steps, std::function<bool(Pid)> has,
                   int64_t offset_ns, bool with_sync, TextWriter* writer);

  // Returns the number of a process's device in the trace.
  uint32_t NumberOf(Pid pid, uint32_t device) const { return numbers_.Of(pid, device); }
  // Returns the number that is added to the correlation ids of a process.
  uint64_t FirstCorrelation(Pid pid) { return uint64_t{NumberOfProcess(Raw(pid), kNowhere)} << 32; }
  // Notes a call that is no slice of its thread's track, so that no arrow begins at it.
  void AddUnnestedCall(SpanId call) { unnested_calls_.insert(Raw(call)); }
  // Write "deviceProperties", and CUDA's versions as keys of their own, in the head of the trace.
  void WriteProperties(JsonStream* json);
  void WriteVersions(JsonStream* json);
  // Writes all rows of devices, their arrows, and the names of their tracks. To be called when the
  // rows of the CPU are written, because arrows begin at these.
  void WriteRows();
  // Writes the longer gaps of a device or a stream, as pairs of asynchronous events, because
  // readers that add up rows ignore these.
  void WriteIdle(const DeviceIdle& device);

 private:
  enum class TrackKind : uint8_t { kStream, kSync, kOverhead, kRanges };
  struct TrackKey {
    uint32_t pid = 0;
    uint32_t device = 0;  // its number in the trace
    uint32_t stream = 0;  // for ranges: their thread
    TrackKind kind = TrackKind::kStream;

    auto operator<=>(const TrackKey&) const = default;
  };
  struct Lane {
    int64_t tid = 0;
    OpenSlices open;
  };
  struct Track {
    int64_t pid = 0;
    std::vector<Lane> lanes;
  };
  struct Place {
    int64_t pid = 0;
    int64_t tid = 0;
    bool nests = true;  // false: no lane is free, so it is written as a pair of events
    OpenSlices::Slice slice;
  };
  struct Row {
    std::string_view category;
    std::string_view quoted_name;
    const Place& place;
    int64_t end_ns = 0;
    uint64_t id = 0;  // of the pair, where it does not nest
  };

  Track& TrackOf(const TrackKey& key);
  Lane& AddLane(const TrackKey& key, Track* track);
  Place PlaceOf(const TrackKey& key, int64_t start_ns, int64_t end_ns);
  int64_t ProcessOf(uint32_t device) const;
  uint32_t NumberOfProcess(uint32_t pid, uint32_t device);
  void WriteActivity(uint32_t index, const DeviceActivity& activity);
  void WriteAnnotation(const DeviceAnnotation& annotation);
  // Writes the part of a row before its args.
  void BeginRow(const Row& row, JsonStream* json);
  // Ends the args and the row, and writes the second event of a pair.
  void EndRow(const Row& row, JsonStream* json);
  static void WriteHead(std::string_view phase, const Row& row, int64_t ts_ns, JsonStream* json);
  void WriteArrow(uint32_t index, const DeviceActivity& activity, const Place& place);
  void WriteNames();
  int64_t Ts(int64_t time_ns) const;

  const Timeline& timeline_;
  const StepRows& steps_;
  std::function<bool(Pid)> has_;
  DeviceNumbers numbers_;
  int64_t offset_ns_;
  bool with_sync_;
  TextWriter& writer_;
  std::vector<std::string> quoted_names_;
  std::map<TrackKey, Track> tracks_;
  // The track that has a process and thread of the trace.
  std::map<std::pair<int64_t, int64_t>, std::pair<TrackKey, size_t>> taken_;
  std::map<uint32_t, std::vector<uint32_t>> processes_of_device_;
  absl::flat_hash_set<uint32_t> pids_;
  absl::flat_hash_set<uint32_t> unnested_calls_;  // SpanId
  uint64_t annotations_ = 0;                      // written
  uint64_t idle_rows_ = 0;                        // written
};

}  // namespace proftrace
