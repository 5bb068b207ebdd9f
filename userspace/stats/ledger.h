// The loss ledger counts every event that came in or went missing, by the reason. The counters are
// shown in the table's footer, the trace's metadata and summary.json. Two identities always hold:
//   records = decoded + unknown + malformed
//   begins  = closed + end_by_exception + end_lost + truncated
#pragma once

#include <cstdint>
#include <string_view>

namespace proftrace {

// What it means that a counter is not 0.
enum class CounterSeverity : uint8_t {
  kNote,  // it says what came in, or what an output lacks by design
  kLoss,  // data that the user asked for was lost, or got a wrong time; --strict makes it an error
};

struct Ledger {
#define PROFTRACE_COUNTER(name, severity) uint64_t name = 0;
#include "userspace/stats/ledger_counters.def"
#undef PROFTRACE_COUNTER

  bool operator==(const Ledger&) const = default;

  bool ConservationHolds() const {
    return records == decoded + unknown + malformed &&
           begins == closed + end_by_exception + end_lost + truncated;
  }
  // Returns whether a counter of severity kLoss is not 0.
  bool AnyLoss() const {
    uint64_t lost = 0;
#define PROFTRACE_COUNTER(name, severity) \
  if (CounterSeverity::severity == CounterSeverity::kLoss) lost += name;
#include "userspace/stats/ledger_counters.def"
#undef PROFTRACE_COUNTER
    return lost > 0;
  }
};

// Counts the GPU agents' records by what became of them:
//   records = merged + unlinked + outside_window + unfinished + unknown + malformed
struct DeviceLedger {
#define PROFTRACE_COUNTER(name, severity) uint64_t name = 0;
#include "userspace/stats/device_counters.def"
#undef PROFTRACE_COUNTER

  bool operator==(const DeviceLedger&) const = default;

  bool ConservationHolds() const {
    return records == merged + unlinked + outside_window + unfinished + unknown + malformed;
  }
  // Returns whether a counter of severity kLoss is not 0.
  bool AnyLoss() const {
    uint64_t lost = 0;
#define PROFTRACE_COUNTER(name, severity) \
  if (CounterSeverity::severity == CounterSeverity::kLoss) lost += name;
#include "userspace/stats/device_counters.def"
#undef PROFTRACE_COUNTER
    return lost > 0;
  }
};

// Calls visit(name, value) for each counter, in the order of the list.
template <typename LedgerType, typename Visitor>
void ForEachCounter(LedgerType& ledger, Visitor&& visit) {
#define PROFTRACE_COUNTER(name, severity) visit(std::string_view(#name), ledger.name);
#include "userspace/stats/ledger_counters.def"
#undef PROFTRACE_COUNTER
}

// Calls visit(name, value) for each counter, in the order of the list.
template <typename LedgerType, typename Visitor>
void ForEachDeviceCounter(LedgerType& ledger, Visitor&& visit) {
#define PROFTRACE_COUNTER(name, severity) visit(std::string_view(#name), ledger.name);
#include "userspace/stats/device_counters.def"
#undef PROFTRACE_COUNTER
}

}  // namespace proftrace
