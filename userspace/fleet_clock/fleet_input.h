// The input from which the common clock of many hosts is computed: the hosts' boots, and the events
// of their ranks that depend on each other. It is plain data, in nanoseconds, and independent of
// captures.
//
// Times are of a boot's local clock, which is CLOCK_MONOTONIC where captures are read. That clock
// never goes back. It stands still while the host is suspended, which is a break in it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "userspace/model/clock_snapshot.h"

namespace proftrace {

// One boot of one host: all processes of it share its clocks.
struct FleetBoot {
  std::string boot_id;                   // /proc/sys/kernel/random/boot_id; unique in the input
  std::string host;                      // for messages; two boots of one host are a restart
  std::vector<ClockSnapshot> snapshots;  // in order of time; may be empty
};

// A process group, with its members' ranks in the job. Groups of one name with different members
// are different groups, because torch's split_group and device meshes use a name again.
struct FleetGroup {
  std::string name;
  std::vector<int32_t> ranks;
};

// Says which ranks' ends depend on which ranks' begins. torch's names of the operations: allreduce,
// broadcast, reduce, ..., send, recv.
enum class CollectiveKind : uint8_t {
  // all_reduce, all_gather, reduce_scatter, all_to_all, barrier: all ranks depend on all
  kAllToAll,
  kBroadcast,  // broadcast, scatter: all ranks depend on the root
  kReduce,     // reduce, gather: the root depends on all ranks
  // recv's end depends on send's begin; send never depends on recv, because sends are buffered
  kSend,
  kRecv,
  kNoDependence,  // without elements, or of an unknown kind: listed, but binds no clock
};

// One call of a collective on one rank. The call may not begin earlier or end later than the
// device's or the thread's work on it: its times are those of a kernel or of a gloo row.
struct CollectiveCall {
  uint32_t group = 0;  // index into FleetInput::groups
  // The call's number in its group; of a message: the number in its pair of ranks
  std::optional<int64_t> sequence;
  CollectiveKind kind = CollectiveKind::kAllToAll;
  bool is_after_loss = false;  // whether calls of this group may be missing before this one
  uint16_t op = 0;      // a number that stands for the operation and the type of its elements
  int32_t root = -1;    // rank; only for kBroadcast and kReduce
  int32_t source = -1;  // ranks; only for kSend and kRecv
  int32_t destination = -1;
  int64_t bytes = 0;
  int64_t entered_ns = 0;
  int64_t left_ns = 0;
};

// One process of the job. A restarted rank is a FleetRank of its own, with the next attempt.
struct FleetRank {
  int32_t rank = 0;
  int32_t attempt = 0;
  uint32_t boot = 0;                  // index into FleetInput::boots
  std::vector<CollectiveCall> calls;  // each group's in the order in which they were issued
};

// A call of send or receive on a TCP connection that was seen from its first byte on.
struct StreamCall {
  uint32_t boot = 0;
  bool is_send = false;
  int64_t bytes = 0;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

// One direction of a connection. Each side's calls in order.
struct FleetStream {
  std::vector<StreamCall> calls;
};

struct FleetInput {
  std::vector<FleetBoot> boots;
  std::vector<FleetGroup> groups;
  std::vector<FleetRank> ranks;
  std::vector<FleetStream> streams;
};

struct FleetOptions {
  // The largest error that a time stamp may have against its boot's clock.
  int64_t resolution_ns = 1000;
  // How far the rate of a boot's clock, against the reference's, may be from its own mean. Quartz
  // wanders by 0.1 to 1 ppm with the temperature. Slewing that the boot's snapshots show is added.
  int64_t wander_ppb = 1000;
  // The largest rate between two clocks. NTP slews by 500 ppm at most (kernel, MAXFREQ), and quartz
  // is off by 100 ppm: the value covers two clocks with both, and a margin.
  int64_t max_rate_ppb = 1'500'000;
  // The boot whose clock is the common one; nullopt: the boot with the most dependences.
  std::optional<std::string> reference_boot_id;
};

}  // namespace proftrace
