// The viewer of `proftrace top`: a process without rights, which reads captures of the last seconds
// and draws or prints their figures.
#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>

#include "userspace/top/top_state.h"

namespace proftrace {

enum class TopOutput : uint8_t {
  kScreen = 0,
  kPlain,  // one screen after the other as text, for terminals that cannot move their cursor
  kOnce,   // one screen as text
  kJson,   // one object per line
};

struct TopViewOptions {
  TopOutput output = TopOutput::kScreen;
  bool is_once = false;  // shows one screen, or one JSON object, and ends
  double interval_s = 1;
  int64_t window_ns = 0;
  size_t rows = 20;  // rows of a table where the output is not a screen
  TopState state;    // the state at the beginning
};

// Shows the captures that are announced over `socket` (top_messages.h) until the recording ends or
// the user quits. `capture`: the file of the captures. Fails with kOutputFailed, and as
// LoadResults() does.
absl::Status ShowTop(const TopViewOptions& options, int socket, int capture);

}  // namespace proftrace
