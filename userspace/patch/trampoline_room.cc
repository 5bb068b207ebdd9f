#include "userspace/patch/trampoline_room.h"

#include "userspace/inject/jump_distance.h"
#include "userspace/patch/trampoline.h"

namespace proftrace {

std::optional<uint64_t> TrampolineRoom::Take(uint64_t jump_end, size_t bytes) {
  // No trampoline is shorter than its jump back and a call of the recorder.
  constexpr uint64_t kLeastBytes = 16;
  for (size_t i = 0; i < gaps_.size(); ++i) {
    const Gap gap = gaps_[i];
    const uint64_t place = NextSafeTarget(jump_end, gap.begin, kTrampolineAlignment);
    if (place < gap.begin || place + bytes > gap.end) continue;
    const Gap before{gap.begin, place};
    gaps_[i].begin = RoundUp(place + bytes, kTrampolineAlignment);
    const bool is_used_up = gaps_[i].begin + kLeastBytes > gap.end;
    const auto at = gaps_.begin() + static_cast<ptrdiff_t>(i);
    if (before.end - before.begin >= kLeastBytes) {
      if (is_used_up) {
        *at = before;
      } else {
        gaps_.insert(at, before);
      }
    } else if (is_used_up) {
      gaps_.erase(at);
    }
    return place;
  }
  return std::nullopt;
}

}  // namespace proftrace
