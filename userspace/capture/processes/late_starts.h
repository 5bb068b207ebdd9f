// Keeps the processes whose probes were live only some time after they could have run operators, so
// that the operators in between are not recorded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/model/ids.h"

namespace proftrace {

// Not thread-safe: the caller must hold a lock.
class LateStarts {
 public:
  // How many processes are named; the first ones are, and the others are counted.
  static constexpr size_t kMostNamed = 8;

  // Begins the window. Time before it is not missed; until this call all time is before it.
  void BeginWindow(int64_t start_ns) { window_start_ns_ = start_ns; }

  // Adds a process. Both times are of CLOCK_MONOTONIC.
  void Add(Pid pid, int64_t could_run_ns, int64_t live_ns);

  // Returns how late the probes of each process were: "2 forks, PID 17 (85 ms) and PID 18 (90 ms)".
  // `one` and `more` are the words for one process and for several. nullopt where no process missed
  // a part of the window.
  std::optional<std::string> Describe(std::string_view one, std::string_view more) const;

 private:
  struct Start {
    Pid pid{};
    int64_t could_run_ns = 0;
    int64_t live_ns = 0;
  };

  // The first starts are kept, since the window may begin later than they came.
  static constexpr size_t kMostKept = 4096;

  int64_t LateNs(const Start& start) const;

  std::vector<Start> starts_;
  // The number of late starts that are not kept, and the longest delay among them.
  size_t more_ = 0;
  int64_t longest_ns_ = 0;
  int64_t window_start_ns_ = std::numeric_limits<int64_t>::max();
};

}  // namespace proftrace
