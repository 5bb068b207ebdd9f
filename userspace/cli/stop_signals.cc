#include "userspace/cli/stop_signals.h"

#include <signal.h>

#include <cstdint>
#include <initializer_list>

#include "userspace/base/clock.h"

namespace proftrace {
namespace {

std::atomic<bool> g_stop{false};
// One that comes so soon after the first is the same wish: a shell and the terminal both tell.
constexpr int64_t kSameSignalNs = 500'000'000;
std::atomic<int64_t> g_stop_ns{0};

// The first signal ends the recording; a second one has its usual effect. A terminal that closes
// has said all that it can say the first time.
void OnStopSignal(int number) {
  const int64_t now_ns = MonotonicNs();
  int64_t first_ns = 0;
  const bool is_first = g_stop_ns.compare_exchange_strong(first_ns, now_ns);
  g_stop.store(true, std::memory_order_relaxed);
  if (is_first || number == SIGHUP || now_ns - first_ns < kSameSignalNs) return;
  signal(number, SIG_DFL);
  raise(number);
}

}  // namespace

void StopOnSignals() {
  struct sigaction action {};
  action.sa_handler = OnStopSignal;
  for (const int number : {SIGINT, SIGTERM}) sigaction(number, &action, nullptr);
  // Ignored by nohup: then a closed terminal is no reason to stop.
  struct sigaction before {};
  if (sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) {
    sigaction(SIGHUP, &action, nullptr);
  }
  // A reader of the messages or of the table that goes away must not take the recording with it.
  signal(SIGPIPE, SIG_IGN);
}

std::atomic<bool>& StopAsked() { return g_stop; }

}  // namespace proftrace
