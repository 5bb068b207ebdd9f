// Puts the events of all threads into one order of time. The ring gives each thread's events in
// order, but a thread may be preempted between taking the time and writing: an event may come after
// later ones of other threads, by a time slice at most. An event that comes even later gets the
// time of the last event that was given out, and is counted, so that the order of time always
// holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "userspace/decode/event.h"
#include "userspace/stats/ledger.h"

namespace proftrace {

class EventSorter {
 public:
  // An event may come this much after a later one without being late.
  static constexpr int64_t kWindowNs = 100'000'000;

  explicit EventSorter(Ledger* ledger) : ledger_(ledger) {}

  // Returns the buffer to append to, in the order of arrival.
  std::vector<Event>* buffer() { return &buffer_; }

  // Calls sink(const Event&, std::span<const Event> later) for every event that can be placed now,
  // in order of time (ties: order of arrival). `later` holds the events after it that are known by
  // then: at least those of its thread within kWindowNs. With `flush`, all events are given out.
  // Stops where the sink returns false.
  template <typename Sink>
  bool Drain(bool flush, Sink&& sink) {
    const size_t ready = SortAndCount(flush);
    for (size_t i = 0; i < ready; ++i) {
      if (!sink(buffer_[i], std::span<const Event>(buffer_).subspan(i + 1))) return false;
    }
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<ptrdiff_t>(ready));
    sorted_ = buffer_.size();
    return true;
  }

 private:
  // Sorts the buffer and returns how many of its events are older than the window.
  size_t SortAndCount(bool flush);

  Ledger* ledger_;
  std::vector<Event> buffer_;
  size_t sorted_ = 0;               // the first `sorted_` events are in order
  int64_t drained_ns_ = INT64_MIN;  // time of the last event given out
};

}  // namespace proftrace
