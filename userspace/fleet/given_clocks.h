// Reads the clocks of hosts from a file of the user, where another tool has measured them: `merge
// --clock FILE`.
//
//   {"hosts": [{"host": "node1", "offset_ns": -1250000, "drift_ppb": 40, "at_unix_ns":
//   1764000000000000000,
//               "bound_ns": 2000}, …]}
//
// The summary that `proftrace merge --json` prints is such a document as well.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace proftrace {

struct GivenClock {
  std::string host;  // `host` or `boot_id` names the host; boot_id counts more where both are given
  std::string boot_id;    // may be empty
  int64_t offset_ns = 0;  // common time minus the host's wall clock, at `at_unix_ns`
  // Ns per second by which the offset grows; negative for a clock that is too fast.
  int64_t drift_ppb = 0;
  int64_t at_unix_ns = 0;
  std::optional<int64_t> bound_ns;  // the largest error of the offset, as the file says

  int64_t ToCommon(int64_t wall_ns) const;
};

// Reads such a document; `path` is for messages. Fails with ExitCode::kInputDamaged where the text
// is not such a document, names a host twice, or gives a drift without the moment of its offset.
absl::StatusOr<std::vector<GivenClock>> ReadGivenClocks(std::string_view text,
                                                        const std::string& path);

// Returns the clock of a host; null where the document does not have it.
const GivenClock* FindGivenClock(const std::vector<GivenClock>& clocks, std::string_view host,
                                 std::string_view boot_id);

}  // namespace proftrace
