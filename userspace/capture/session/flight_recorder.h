// A flight recorder (--flight-recorder): the records of the last seconds are written when the user
// asks for them, when a trigger fires and at the end. This class decides when a dump is due; the
// recording session tells it what happens and takes the dumps. For one thread.
#pragma once

#include <absl/container/flat_hash_set.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bpf/abi/records.h"
#include "userspace/model/ids.h"
#include "userspace/model/recording.h"
#include "userspace/stats/ledger.h"
#include "userspace/wire/capture_writer.h"
#include "userspace/wire/flight_keeper.h"
#include "userspace/wire/metadata.h"

namespace proftrace {

struct FlightTrigger {
  enum class Kind : uint8_t {
    kStepRatio,   // a step took longer than `ratio` times the median of the steps before it
    kStepLength,  // a step took longer than `length_ns`
    kExit,        // a target ended, or another recorded process failed
    kOutOfMemory,
  };
  Kind kind = Kind::kExit;
  double ratio = 0;
  int64_t length_ns = 0;
  std::string text;  // the trigger, as the user wrote it
};

struct FlightOptions {
  int64_t window_ns = 0;
  size_t most_bytes = 0;
  std::vector<FlightTrigger> triggers;
  uint32_t most_dumps = 0;  // the most dumps that triggers may cause
  // A summary of the window is due each time that the wall clock passes a multiple of this, so that
  // all hosts look at the same time; 0: no summaries. The window of a summary is at most as long as
  // this.
  int64_t summary_period_ns = 0;
  // The number of dumps that the user has asked for.
  const std::atomic<uint32_t>* signals = nullptr;
  std::string asked_reason = "SIGUSR1";  // the reason of these dumps
  // Whether these dumps end so long before they were asked for that they can be taken at once.
  bool asks_for_past = false;

  bool WatchesSteps() const;
};

// A dump, which is written as a capture of its own.
struct FlightDump {
  std::string reason;
  Window window;
  FlightSnapshot snapshot;
  std::vector<std::string> last_words;  // metadata

  absl::Status WriteTo(CaptureWriter* writer) const { return snapshot.WriteTo(last_words, writer); }
};

class FlightRecorder {
 public:
  // A new step is compared with at least kFewestSteps earlier steps, and with at most kMostSteps.
  static constexpr size_t kFewestSteps = 8;
  static constexpr size_t kMostSteps = 1024;

  // `is_recorded` tells whether a process that ends is recorded.
  FlightRecorder(FlightOptions options, std::function<bool(Pid)> is_recorded)
      : options_(std::move(options)), is_recorded_(std::move(is_recorded)) {}

  // Returns how long and how much the keeper must keep, so that a window is whole when its dump is
  // taken.
  static FlightLimits LimitsOf(const FlightOptions& options);

  // Begins the recording. `targets` are the processes that the user named, and `settle_ns` is the
  // longest time from an event until its record reaches the keeper.
  void Start(int64_t start_ns, const std::vector<Pid>& targets, int64_t settle_ns);
  // Takes a record, in the order of the ring.
  void Observe(const abi::pt_record& head, std::span<const std::byte> record) {
    if (head.kind == abi::PT_THREAD_EXIT) OnExit(record);
    if (head.kind == abi::PT_OUT_OF_MEMORY) OnOutOfMemory(record);
  }
  // Takes the steps so far, in ascending order. They may be the steps of another thread than at the
  // last call.
  void OnSteps(const RecordedSteps& steps, int64_t now_ns);
  // Checks whether the user has asked for a dump. To be called often.
  void Look(int64_t now_ns);
  // Checks whether the wall clock, which shows `unix_ns`, has passed a multiple of the summary
  // period.
  void LookAtWall(int64_t now_ns, int64_t unix_ns);
  // Takes the counts of losses until now. To be called at least twice a second.
  void NoteLosses(int64_t now_ns, const Ledger& losses);

  // Whether a dump is to be taken now.
  bool IsDue(int64_t now_ns) const { return due_.has_value() && now_ns >= due_->take_ns; }
  // Returns the dump that is due, or with `is_end` the last one. `last_words` has the metadata of
  // the recording; the window, its losses and its cost are added to it.
  FlightDump Take(int64_t now_ns, bool is_end, const FlightKeeper& keeper, const Window& recording,
                  const Cost& cost, MetadataWriter* last_words);
  // Whether a summary is to be taken now. TakeSummary() returns its window as a dump, as Take()
  // does.
  bool IsSummaryDue(int64_t now_ns) const {
    return summary_.has_value() && now_ns >= summary_->take_ns;
  }
  FlightDump TakeSummary(const FlightKeeper& keeper, const Window& recording, const Cost& cost,
                         MetadataWriter* last_words);

  // Returns how many triggers fired without making a dump.
  uint64_t passed_over() const { return passed_over_; }

 private:
  struct Due {
    std::string reason;
    int64_t end_ns = 0;
    int64_t take_ns = 0;
  };
  struct Losses {
    int64_t time_ns = 0;
    Ledger ledger;
  };

  bool Has(FlightTrigger::Kind kind) const;
  void OnExit(std::span<const std::byte> record);
  void OnOutOfMemory(std::span<const std::byte> record);
  // Checks a step against the triggers. `before` has the lengths of the steps before it, in
  // nanoseconds.
  void OnStep(int64_t number, int64_t length_ns, const std::vector<int64_t>& before,
              int64_t now_ns);
  void Fire(const std::string& trigger, const std::string& what, int64_t now_ns);
  void Ask(const std::string& reason, int64_t now_ns);
  Ledger LossesSince(int64_t time_ns) const;
  // Makes the dump that is due out of the kept records, from `wanted_ns` on if these are still
  // there.
  FlightDump Cut(const Due& due, int64_t wanted_ns, const FlightKeeper& keeper,
                 const Window& recording, const Cost& cost, MetadataWriter* last_words) const;

  FlightOptions options_;
  std::function<bool(Pid)> is_recorded_;
  absl::flat_hash_set<uint32_t> targets_;  // pids
  int64_t start_ns_ = 0;
  int64_t settle_ns_ = 0;
  std::optional<Due> due_;
  std::optional<Due> summary_;
  std::optional<int64_t> period_;  // the number of the summary period that the wall clock is in
  int64_t summarised_until_ns_ = 0;
  uint32_t signals_seen_ = 0;
  std::optional<int64_t> last_fired_ns_;
  uint32_t fired_ = 0;
  uint64_t passed_over_ = 0;
  std::pair<Pid, Tid> steps_of_{};
  int64_t steps_until_ns_ = 0;  // steps that began before this time are not checked again
  std::deque<Losses> losses_;
};

}  // namespace proftrace
