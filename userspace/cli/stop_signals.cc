#include "userspace/cli/stop_signals.h"

#include <signal.h>

#include <cstdint>
#include <initializer_list>

#include "userspace/base/clock.h"

namespace proftrace {
namespace {

std::atomic<bool> g_stop{false};
// A signal that comes this soon after the first counts as the same request, because a shell and the
// terminal may both send one.
constexpr int64_t kSameSignalNs = 500'000'000;
std::atomic<int64_t> g_stop_ns{0};

// Handles a signal: the first one ends the recording, and a second one has its usual effect. SIGHUP
// never counts as a second one, because a closed terminal cannot ask twice.
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
  // Where nohup has ignored SIGHUP, a closed terminal does not end the recording.
  struct sigaction before {};
  if (sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) {
    sigaction(SIGHUP, &action, nullptr);
  }
  // A reader of the messages or of the table that closes its pipe must not end the recording.
  signal(SIGPIPE, SIG_IGN);
}

std::atomic<bool>& StopAsked() { return g_stop; }

}  // namespace proftrace
