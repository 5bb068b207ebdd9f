#include "userspace/capture/processes/late_starts.h"

#include <algorithm>

#include "userspace/base/text.h"

namespace proftrace {
namespace {

// Rounds up, so that a start is never said to be less late than it was.
std::string Milliseconds(int64_t ns) { return std::to_string((ns + 999'999) / 1'000'000) + " ms"; }

}  // namespace

int64_t LateStarts::LateNs(const Start& start) const {
  return std::max<int64_t>(0, start.live_ns - std::max(start.could_run_ns, window_start_ns_));
}

void LateStarts::Add(Pid pid, int64_t could_run_ns, int64_t live_ns) {
  const Start start{pid, could_run_ns, live_ns};
  if (starts_.size() < kMostKept) {
    starts_.push_back(start);
  } else if (const int64_t late_ns = LateNs(start); late_ns > 0) {
    ++more_;
    longest_ns_ = std::max(longest_ns_, late_ns);
  }
}

std::optional<std::string> LateStarts::Describe(std::string_view one, std::string_view more) const {
  size_t count = more_;
  int64_t longest_ns = longest_ns_;
  std::vector<std::string> named;
  for (const Start& start : starts_) {
    const int64_t late_ns = LateNs(start);
    if (late_ns == 0) continue;
    ++count;
    longest_ns = std::max(longest_ns, late_ns);
    if (named.size() == kMostNamed) continue;
    named.push_back("PID " + std::to_string(Raw(start.pid)) + " (" + Milliseconds(late_ns) + ")");
  }
  if (count == 0) return std::nullopt;
  std::string text = OneOrMore(count, one, more) + ", ";
  const size_t others = count - named.size();
  for (size_t i = 0; i < named.size(); ++i) {
    const bool is_last = i + 1 == named.size() && others == 0;
    if (i > 0) text += is_last ? " and " : ", ";
    text += named[i];
  }
  if (others > 0) {
    text += (named.empty() ? "" : " and ") + std::to_string(others) + " more (at most " +
            Milliseconds(longest_ns) + ")";
  }
  return text;
}

}  // namespace proftrace
