// The side of `proftrace top` that shows: a process without rights, which reads captures of the
// last seconds and draws, or prints, what they tell.
#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>

#include "userspace/top/top_state.h"

namespace proftrace {

enum class TopOutput : uint8_t {
  kScreen = 0,
  kPlain,  // a screen after the other as text, for terminals that cannot go to a place
  kOnce,   // one screen as text
  kJson,   // an object a line
};

struct TopViewOptions {
  TopOutput output = TopOutput::kScreen;
  bool is_once = false;  // also of JSON
  double interval_s = 1;
  int64_t window_ns = 0;
  size_t rows = 20;  // of a table, where it is no screen's
  TopState state;    // to begin with
};

// Shows what comes over `socket` (top_messages.h) until its end, or until the user has enough.
// `capture`: the file of the captures. Fails with kOutputFailed, and as LoadResults().
absl::Status ShowTop(const TopViewOptions& options, int socket, int capture);

}  // namespace proftrace
