#include "userspace/fleet/perfetto_merge.h"

#include <cstring>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "exporters/traces/perfetto_packets.h"
#include "userspace/fleet/event_runs.h"
#include "userspace/fleet/merged_ids.h"
#include "userspace/fleet/merged_names.h"

namespace proftrace {
namespace {

using nlohmann::json;

constexpr std::string_view kPhases = "XBEiIRCstfbenM";

// Returns the order of events of equal time: an end goes before a begin, and an arrow after its
// row.
int32_t OrderOf(char phase) {
  switch (phase) {
    case 'E':
    case 'e':
      return 0;
    case 's':
    case 't':
    case 'f':
      return 2;
    default:
      return 1;
  }
}

struct StoredEvent {
  char phase = 'X';
  bool has_id = false;
  int64_t pid = 0;
  int64_t tid = 0;
  int64_t duration_ns = 0;
  uint64_t id = 0;
  uint32_t category_bytes = 0;
  uint32_t name_bytes = 0;
  uint32_t args_bytes = 0;
};

// A track whose slices nest.
struct MergedLane {
  uint64_t track = 0;
  // Ends of the open slices, outermost first; kOpen for a slice that gets an end event of its own.
  std::vector<int64_t> open_ends_ns;
};
constexpr int64_t kOpen = std::numeric_limits<int64_t>::max();

class PerfettoMerge : public MergeWriter {
 public:
  PerfettoMerge(ByteSink& sink, const GuardedFolder& scratch) : packets_(sink), runs_(scratch) {}

  absl::Status Begin(const MergeHead& head) override {
    base_ns_ = head.base_ns;
    ids_.emplace(head.processes);
    packets_.BeginTrace(base_ns_, base_ns_);
    packets_.Metadata("proftrace.merge", head.summary);
    return Check();
  }

  absl::Status BeginPart(const MergePart& part) override {
    part_ = part;
    ids_->BeginPart(part.process);
    names_.Clear();
    return absl::OkStatus();
  }

  absl::Status Event(const SourceEvent& event, uint64_t link, bool* is_written) override {
    *is_written = kPhases.find(event.phase) != std::string_view::npos &&
                  (event.phase == 'M' || event.begin_ns);
    if (!*is_written) return absl::OkStatus();
    StoredEvent stored;
    stored.pid = ids_->PidOf(event.pid);
    stored.tid = ids_->TidOf(stored.pid, event.tid);
    names_.SetOriginal(stored.pid, event.pid);
    if (event.phase == 'M') {
      *is_written = names_.Take(event, stored.pid, stored.tid);
      return absl::OkStatus();
    }
    names_.AddRow(stored.pid, stored.tid);
    stored.phase = event.phase;
    stored.duration_ns = event.duration_ns;
    stored.has_id = link != 0 || event.id.has_value();
    if (link != 0) {
      stored.id = MergedIds::IdOfLink(link);
    } else if (event.id) {
      stored.id = ids_->IdOf(event.category, *event.id);
    }
    stored.category_bytes = static_cast<uint32_t>(event.category.size());
    stored.name_bytes = static_cast<uint32_t>(event.name.size());
    stored.args_bytes = static_cast<uint32_t>(event.args.size());
    record_.assign(reinterpret_cast<const char*>(&stored), sizeof(stored));
    record_ += event.category;
    record_ += event.name;
    record_ += event.args;
    return runs_.Add({*event.begin_ns, OrderOf(event.phase), event.duration_ns}, record_);
  }

  absl::Status EndPart() override {
    packets_.BeginMachine(part_.machine, base_ns_, base_ns_);
    process_tracks_.clear();
    lanes_.clear();
    other_tracks_.clear();
    for (const auto& [pid, process] : names_.processes()) {
      if (process.has_rows) Describe(pid, process);
    }
    absl::Status status = runs_.TakeAll([this](const EventKey& key, std::string_view record) {
      Write(key.time_ns, record);
      return Check();
    });
    for (auto& [thread, lane] : lanes_) Close(&lane, kOpen - 1);
    return status.ok() ? Check() : status;
  }

  absl::Status Finish() override { return packets_.Flush(); }

 private:
  absl::Status Check() { return packets_.ok() ? absl::OkStatus() : packets_.Flush(); }

  void Describe(int64_t pid, const MergedNames::Process& process) {
    const std::string& own = process.name.empty() ? process.original : process.name;
    std::string name = part_.label + (own.empty() ? "" : " " + own);
    if (!part_.detail.empty()) name += " (" + part_.detail + ")";
    const uint64_t track = next_track_++;
    process_tracks_[pid] = track;
    packets_.DescribeProcess(track, static_cast<uint32_t>(pid), name);
    for (const auto& [tid, thread] : process.threads) {
      if (!thread.has_rows) continue;
      MergedLane& lane = lanes_[{pid, tid}];
      lane.track = next_track_++;
      const std::string thread_name =
          thread.name.empty() ? "thread " + std::to_string(tid) : thread.name;
      // Thread 0 is the idle thread on every system.
      if (tid > 0 && tid <= std::numeric_limits<int32_t>::max()) {
        packets_.DescribeThread(lane.track, static_cast<uint32_t>(pid), static_cast<uint32_t>(tid),
                                thread_name);
      } else {
        packets_.DescribeTrack(lane.track, track, thread_name);
      }
    }
  }

  void Write(int64_t time_ns, std::string_view record) {
    StoredEvent event;
    std::memcpy(&event, record.data(), sizeof(event));
    record.remove_prefix(sizeof(event));
    const std::string_view category = record.substr(0, event.category_bytes);
    const std::string name = PlainText(record.substr(event.category_bytes, event.name_bytes));
    std::string_view args = record.substr(event.category_bytes + event.name_bytes);
    const std::string_view whole_args = args;
    if (args.size() >= 2) args = args.substr(1, args.size() - 2);
    MergedLane& lane = lanes_[{event.pid, event.tid}];
    switch (event.phase) {
      case 'X':
        WriteSlice(&lane, time_ns, time_ns + event.duration_ns, category, name, args);
        break;
      case 'B':
        Close(&lane, time_ns);
        packets_.Begin(lane.track, time_ns, category, name, args, {});
        lane.open_ends_ns.push_back(kOpen);
        break;
      case 'E':
        Close(&lane, time_ns);
        if (lane.open_ends_ns.empty() || lane.open_ends_ns.back() != kOpen) break;
        packets_.End(lane.track, time_ns);
        lane.open_ends_ns.pop_back();
        break;
      case 'C':
        WriteCounters(event.pid, time_ns, name, whole_args);
        break;
      case 's':
      case 't':
      case 'f':
        packets_.ArrowEnd(lane.track, time_ns, category, name, event.phase, event.id);
        break;
      case 'b':
        packets_.Begin(TrackOf(event.pid, name, category, event.id), time_ns, category, name, args,
                       {});
        break;
      case 'e':
        packets_.End(TrackOf(event.pid, name, category, event.id), time_ns);
        break;
      case 'n':
        packets_.Instant(TrackOf(event.pid, name, category, event.id), time_ns, category, name,
                         args, {});
        break;
      default:
        packets_.Instant(lane.track, time_ns, category, name, args, {});
        break;
    }
  }

  void Close(MergedLane* lane, int64_t until_ns) {
    std::vector<int64_t>& open = lane->open_ends_ns;
    for (; !open.empty() && open.back() <= until_ns; open.pop_back()) {
      packets_.End(lane->track, open.back());
    }
  }

  // Writes a slice of the lane. A slice that does not nest gets a track of its own below the lane.
  void WriteSlice(MergedLane* lane, int64_t begin_ns, int64_t end_ns, std::string_view category,
                  std::string_view name, std::string_view args) {
    Close(lane, begin_ns);
    if (lane->open_ends_ns.empty() || end_ns <= lane->open_ends_ns.back()) {
      packets_.Begin(lane->track, begin_ns, category, name, args, {});
      lane->open_ends_ns.push_back(end_ns);
      return;
    }
    const uint64_t track = next_track_++;
    packets_.DescribeTrack(track, lane->track, name);
    packets_.Begin(track, begin_ns, category, name, args, {});
    packets_.End(track, end_ns);
  }

  void WriteCounters(int64_t pid, int64_t time_ns, const std::string& name,
                     std::string_view whole_args) {
    const json args = json::parse(whole_args, nullptr, false);
    if (!args.is_object()) return;
    for (const auto& [key, value] : args.items()) {
      if (!value.is_number()) continue;
      uint64_t& track = other_tracks_[{pid, name, key, 0}];
      if (track == 0) {
        track = next_track_++;
        packets_.DescribeCounter(track, process_tracks_[pid], name + " " + key);
      }
      if (value.is_number_integer()) {
        packets_.Counter(track, time_ns, value.get<int64_t>());
      } else {
        packets_.Counter(track, time_ns, value.get<double>());
      }
    }
  }

  // Returns the track of an asynchronous row.
  uint64_t TrackOf(int64_t pid, const std::string& name, std::string_view category, uint64_t id) {
    uint64_t& track = other_tracks_[{pid, "", std::string(category), id}];
    if (track == 0) {
      track = next_track_++;
      packets_.DescribeTrack(track, process_tracks_[pid], name);
    }
    return track;
  }

  PerfettoPackets packets_;
  EventRuns runs_;
  int64_t base_ns_ = 0;
  MergePart part_;
  std::optional<MergedIds> ids_;
  MergedNames names_;
  std::string record_;
  uint64_t next_track_ = 1;
  std::map<int64_t, uint64_t> process_tracks_;
  std::map<std::pair<int64_t, int64_t>, MergedLane> lanes_;
  std::map<std::tuple<int64_t, std::string, std::string, uint64_t>, uint64_t> other_tracks_;
};

}  // namespace

std::unique_ptr<MergeWriter> NewPerfettoMerge(ByteSink& sink, const GuardedFolder& scratch) {
  return std::make_unique<PerfettoMerge>(sink, scratch);
}

}  // namespace proftrace
