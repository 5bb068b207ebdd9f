// An input of a merge that was made up: its events are kept as texts.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "userspace/collectives/source_input.h"

namespace proftrace {

struct FakeEvent {
  char phase = 'X';
  std::string name;
  std::string category = "cpu_op";
  int64_t pid = 0;
  int64_t tid = 0;
  int64_t begin_ns = 0;
  int64_t duration_ns = 0;
  std::string args;
  std::optional<int64_t> id;
  std::string text_pid;  // instead of the number
};

class FakeSource : public SourceInput {
 public:
  FakeSource(SourceFacts facts, std::vector<FakeEvent> events)
      : facts_(std::move(facts)), events_(std::move(events)) {
    facts_.events = events_.size();
    for (const FakeEvent& event : events_) {
      if (event.phase == 'M') continue;
      const int64_t end_ns = event.begin_ns + event.duration_ns;
      facts_.first_ns = std::min(facts_.first_ns.value_or(event.begin_ns), event.begin_ns);
      facts_.last_ns = std::max(facts_.last_ns.value_or(end_ns), end_ns);
    }
  }

  const SourceFacts& facts() const override { return facts_; }
  absl::Status ForEachEvent(const std::function<absl::Status(const SourceEvent&)>& take) override {
    for (const FakeEvent& event : events_) {
      SourceEvent out;
      out.phase = event.phase;
      out.name = event.name;
      out.category = event.category;
      out.pid = event.text_pid.empty() ? SourceId(event.pid) : SourceId(event.text_pid);
      out.tid = event.tid;
      if (event.phase != 'M') out.begin_ns = event.begin_ns;
      out.duration_ns = event.duration_ns;
      if (event.id) out.id = *event.id;
      out.args = event.args;
      if (absl::Status status = take(out); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  SourceFacts facts_;
  std::vector<FakeEvent> events_;
};

// A job of one rank a host: all-reduces of which each rank's lateness is told, and the operators
// around them. Host h's clock shows t + t * ppm + offset at the true time t.
struct FakeJob {
  int ranks = 2;
  int collectives = 20;
  int64_t step_ns = 10'000'000;
  int64_t transfer_ns = 400'000;
  std::vector<int64_t> offsets_ns;  // by rank; 0
  std::vector<int64_t> ppm;
  std::vector<int64_t> late_ns;  // of each rank in each collective
  SourceKind kind = SourceKind::kKineto;
  SourceClock clock = SourceClock::kRealtime;
  int gpu_rows = 0;  // in each step

  static constexpr int64_t kStartNs = 1'764'000'000'000'000'000;
  static constexpr int64_t kPid = 47;  // each is the first of its container

  template <typename T>
  static T At(const std::vector<T>& values, int index) {
    return static_cast<size_t>(index) < values.size() ? values[static_cast<size_t>(index)] : T{};
  }
  int64_t LocalAt(int rank, int64_t true_ns) const {
    return kStartNs + true_ns + true_ns / 1'000'000 * At(ppm, rank) + At(offsets_ns, rank);
  }

  std::unique_ptr<SourceInput> Make(int rank) const {
    SourceFacts facts;
    facts.kind = kind;
    facts.clock = clock;
    facts.path = "rank" + std::to_string(rank) + ".json";
    facts.host = "host" + std::to_string(rank);
    facts.pid = kPid;
    facts.rank = rank;
    facts.world_size = ranks;
    FleetGroup world{"world", {}};
    for (int member = 0; member < ranks; ++member) world.ranks.push_back(member);
    facts.groups = {world};
    std::vector<FakeEvent> events;
    events.push_back({'M', "process_name", "", kPid, 0, 0, 0, "{\"name\": \"python\"}"});
    events.push_back({'M', "thread_name", "", kPid, kPid, 0, 0, "{\"name\": \"main\"}"});
    int64_t latest_ns = 0;
    for (int member = 0; member < ranks; ++member) {
      latest_ns = std::max(latest_ns, At(late_ns, member));
    }
    for (int step = 0; step < collectives; ++step) {
      // No two steps are equally long, so that each can be told apart without a number.
      const int64_t true_ns = step * step_ns + step * step * 30'000;
      const int64_t entered_ns = true_ns + 1'000'000 + At(late_ns, rank);
      const int64_t left_ns = true_ns + 1'000'000 + latest_ns + transfer_ns + rank * 100;
      const auto add = [&](const std::string& name, const std::string& category, int64_t begin_ns,
                           int64_t end_ns) {
        const int64_t begin = LocalAt(rank, begin_ns);
        events.push_back({'X', name, category, kPid, kPid, begin, LocalAt(rank, end_ns) - begin});
      };
      add("ProfilerStep#" + std::to_string(step), "user_annotation", true_ns, left_ns + 1'000'000);
      add(At(late_ns, rank) > 0 ? "aten::slow" : "aten::mm", "cpu_op", true_ns + 1'000, entered_ns);
      add("inner", "cpu_op", true_ns + 2'000, true_ns + 4'000);
      add("gloo:all_reduce", "user_annotation", entered_ns, left_ns);
      for (int row = 0; row < gpu_rows; ++row) {
        FakeEvent kernel{'X',  "kernel", "kernel", 0, 7, LocalAt(rank, true_ns + row * 10'000),
                         5'000};
        events.push_back(kernel);
      }
      events.push_back(
          {'s', "fwdbwd", "fwdbwd", kPid, kPid, LocalAt(rank, true_ns + 1'000), 0, "", step});
      SourceCall call;
      call.op = "allreduce/Float";
      call.call.sequence = step;
      call.call.bytes = 4096;
      call.call.entered_ns = LocalAt(rank, entered_ns);
      call.call.left_ns = LocalAt(rank, left_ns);
      facts.calls.push_back(call);
    }
    return std::make_unique<FakeSource>(std::move(facts), std::move(events));
  }

  std::vector<std::unique_ptr<SourceInput>> MakeAll() const {
    std::vector<std::unique_ptr<SourceInput>> inputs;
    for (int rank = 0; rank < ranks; ++rank) inputs.push_back(Make(rank));
    return inputs;
  }
};

}  // namespace proftrace
