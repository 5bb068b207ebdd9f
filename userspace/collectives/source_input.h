// The inputs of `proftrace merge` and `proftrace fleet`: each gives one process's events as a
// profiler wrote them, in a stream, and the known facts about that process and its clock. There is
// a reader for each format; writers of the merged timeline see nothing but these inputs.
//
// An input is read twice, each time from its first byte on: once for its facts and once for its
// events. So memory does not grow with the file.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "userspace/fleet_clock/fleet_input.h"

namespace proftrace {

enum class SourceKind : uint8_t { kCapture, kKineto, kDftracer, kNsight };

// A pid, tid or id. In Chrome's format each is a number or a text ("Spans", "PyTorch Profiler").
using SourceId = std::variant<int64_t, std::string_view>;

// One event of Chrome's trace format. Its texts are JSON source, without the quotes of strings, and
// live until the callback that got the event returns.
struct SourceEvent {
  char phase = 'X';
  std::string_view name;
  std::string_view category;
  SourceId pid = int64_t{0};
  SourceId tid = int64_t{0};
  // The begin on the input's own clock (SourceFacts::clock), in whole nanoseconds that never were a
  // double; nullopt for metadata events, which have no time.
  std::optional<int64_t> begin_ns;
  int64_t duration_ns = 0;
  std::optional<SourceId> id;  // of flows, asynchronous events and counters
  std::string_view args;       // the object's text with its braces; empty: none
  std::string_view others;     // all other members as `"key":value,"key":value`; may be empty
};

// The clock that the times of an input are from.
enum class SourceClock : uint8_t {
  kMonotonic,  // CLOCK_MONOTONIC of the host's boot, as in captures
  kRealtime,   // nanoseconds since 1970 by the host's wall clock
  // A clock that begins at a moment that the file does not tell, so that no clock of the host leads
  // to it.
  kOwn,
};

// The row that the times of a collective are from.
enum class CallPlace : uint8_t {
  kKernel,  // a GPU's kernel
  kGloo,    // a work of gloo, on its own thread
  kHost,    // the call that enqueues, which returns before the collective ends
};

// A call of a collective, with its group as an index into SourceFacts::groups.
struct SourceCall {
  CollectiveCall call;  // times on the input's clock; call.group is the index
  std::string op;  // torch's name of the operation and of the type of elements: "allreduce/Float"
  CallPlace place = CallPlace::kHost;
  // These members are for tables; the common clock does not need them.
  std::optional<int64_t> in_bytes;
  std::optional<int64_t> out_bytes;
  std::optional<int64_t> device;
  std::optional<int64_t> stream;
  std::optional<int64_t> launch_ns;  // when the host launched the kernel
};

// The facts of an input's process, as far as the file tells them.
struct SourceFacts {
  SourceKind kind = SourceKind::kKineto;
  std::string path;
  SourceClock clock = SourceClock::kRealtime;
  std::string host;  // empty: not known
  std::optional<std::string> boot_id;
  std::vector<ClockSnapshot> snapshots;
  std::optional<int64_t> pid;           // the PID as the profiler saw it
  std::vector<int64_t> namespace_pids;  // NSpid, outermost first; empty: not known
  std::optional<int32_t> rank;
  std::optional<int32_t> world_size;
  std::optional<int32_t> local_rank;
  int32_t attempt = 0;  // torchelastic's restart count
  std::string job;      // run id or job number; empty: not known
  // The unit of the time stamps: 1000 where they are whole microseconds. It is added to both ends
  // of a call as uncertainty.
  int64_t resolution_ns = 1;
  int64_t base_ns = 0;  // the moment that the file's time stamps count from, as the file says
  std::optional<int64_t> first_ns;  // the times of the first and the last event
  std::optional<int64_t> last_ns;
  uint64_t events = 0;
  std::vector<FleetGroup> groups;
  std::vector<std::string> group_descriptions;  // of the groups, by index; empty: none
  // Calls of this process; those of a group are in the order of issue.
  std::vector<SourceCall> calls;
  // The calls whose group's members are not known, in order of time. Their index of a group means
  // nothing.
  std::vector<SourceCall> calls_without_group;
  // The members beside the events at the top of a Kineto file, as `"key":value,…` text, without
  // times and base; may be empty.
  std::string head;
  // What the file lacks, a sentence each: cut off after byte N, rows without a time.
  std::vector<std::string> remarks;
};

// One file or capture with one process's events.
class SourceInput {
 public:
  virtual ~SourceInput() = default;
  // Returns what the file tells about its process. OpenSource() has read the whole file for these
  // facts.
  virtual const SourceFacts& facts() const = 0;
  // Calls `take` with each event in the file's order. An error of `take` ends the reading, and is
  // returned.
  virtual absl::Status ForEachEvent(
      const std::function<absl::Status(const SourceEvent&)>& take) = 0;
};

}  // namespace proftrace
