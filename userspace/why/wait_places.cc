#include "userspace/why/wait_places.h"

#include <absl/strings/str_format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace proftrace {

PlaceWaits LongestPlace(const Case& job, const std::function<bool(const WaitSum&)>& is_asked) {
  using Key = std::tuple<WaitReason, uint32_t, uint32_t, int32_t>;
  std::map<Key, PlaceWaits> places;
  PlaceWaits longest;
  for (const WaitSum& wait : job.waits) {
    if (!is_asked(wait)) continue;
    const WaitPlace& at = wait.place;
    PlaceWaits& place = places[{wait.reason, Raw(at.path), Raw(at.stack), at.call}];
    place.blocked_ns += wait.blocked_ns;
    place.longest_ns = std::max(place.longest_ns, wait.longest_ns);
    place.count += wait.count;
    if (place.largest == nullptr) place.largest = &wait;
    if (place.blocked_ns > longest.blocked_ns) longest = place;
  }
  return longest;
}

std::string WaiterText(const Case& job, const PlaceWaits& waits) {
  const std::string place = WaitPlaceText(job.timeline, waits.largest->place);
  std::string text = "It waited " + CountText(waits.count, "time", "times") + " for " +
                     DurationText(waits.blocked_ns);
  if (!place.empty()) text += " at " + place;
  return text + ", " + DurationText(waits.longest_ns) + " at the longest";
}

std::string WakerText(const Case& job, const PlaceWaits& waits) {
  const WaitSum& wait = *waits.largest;
  const std::string which =
      wait.count == waits.count ? "; what ended that was " : "; what ended the longest was ";
  if (wait.waker_is_known) {
    const std::string place = WaitPlaceText(job.timeline, wait.waker);
    return which + ThreadPlaceText(job.timeline, wait.waker_thread, job.parts.pid) +
           (place.empty() ? "" : ", then in " + place) + ".";
  }
  if (Raw(wait.waker_tid) == 0) return ".";
  return which + absl::StrFormat("TID %u of PID %u, which is not recorded.", Raw(wait.waker_tid),
                                 Raw(wait.waker_pid));
}

}  // namespace proftrace
