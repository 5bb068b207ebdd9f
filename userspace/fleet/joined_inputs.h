// Groups inputs by process, and processes by boot: finds which files are of the same process, which
// processes share a clock, and which rank each process is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "userspace/collectives/source_input.h"
#include "userspace/fleet/rank_pattern.h"
#include "userspace/fleet/wall_clock.h"
#include "userspace/fleet_clock/fleet_input.h"

namespace proftrace {

// A local clock: that of a host's boot, which captures tell, or the wall clock of a host about
// which nothing else is known.
struct JoinedBoot {
  FleetBoot boot;
  WallClock wall{{}};
  bool is_wall = false;  // its local clock is the wall clock
  bool is_own = false;   // SourceClock::kOwn: the clock begins at a moment that nobody knows

  // Returns whether times of this clock can be converted to wall time.
  bool has_wall() const { return !is_own && (is_wall || wall.is_known()); }
};

struct JoinedProcess {
  std::vector<uint32_t> inputs;  // indices of the inputs: the capture first, then by kind and path
  uint32_t boot = 0;             // index into JoinedInputs::boots
  std::optional<int32_t> rank;   // nullopt: a helper process, or a job of one process
  int32_t attempt = 0;
  std::optional<int64_t> pid;
  std::string host;
};

struct JoinedInputs {
  // Sorted by rank and attempt; processes without a rank come last. The order of the inputs does
  // not matter.
  std::vector<JoinedProcess> processes;
  std::vector<JoinedBoot> boots;
  std::vector<uint32_t> process_of_input;
  std::optional<int32_t> world_size;
  std::vector<int32_t> missing_ranks;
  std::vector<std::string> remarks;  // sentences

  const JoinedBoot& BootOf(uint32_t input) const {
    return boots[processes[process_of_input[input]].boot];
  }
  // Returns a time of an input on its boot's local clock.
  int64_t ToLocal(uint32_t input, const SourceFacts& facts, int64_t ns) const {
    const JoinedBoot& boot = BootOf(input);
    return facts.clock == SourceClock::kRealtime && !boot.is_wall ? boot.wall.ToLocal(ns) : ns;
  }
};

// Joins the inputs that belong together. Two inputs are of one process if PID (or a PID of its
// namespaces), host, rank and time agree as far as they are known; a PID alone is not enough. Fails
// with ExitCode::kInputsDisagree for inputs of different jobs, the same file twice, or two files of
// one rank and time; with ExitCode::kUsage where there are several processes and a file does not
// tell its rank.
absl::StatusOr<JoinedInputs> JoinInputs(const std::vector<const SourceFacts*>& inputs,
                                        const std::optional<RankPattern>& rank_of);

// Returns "0, 3-7", for messages. `ranks` must be in order.
std::string RankList(const std::vector<int32_t>& ranks);

}  // namespace proftrace
