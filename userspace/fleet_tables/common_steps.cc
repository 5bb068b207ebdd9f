#include "userspace/fleet_tables/common_steps.h"

#include <algorithm>
#include <map>

#include "absl/container/flat_hash_map.h"

namespace proftrace {
namespace {

class OffsetFinder {
 public:
  explicit OffsetFinder(const std::vector<RankSteps>& ranks)
      : ranks_(ranks), offsets_(ranks.size(), 0), is_placed_(ranks.size(), false) {}

  std::vector<int64_t> Find() {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].steps.empty()) is_placed_[rank] = true;
    }
    for (size_t first = 0; first < ranks_.size(); ++first) {
      if (is_placed_[first]) continue;
      Place(first, has_placed_ ? OffsetByTime(first) : 0);
      while (PlaceThoseWhoMet()) {
      }
    }
    return offsets_;
  }

 private:
  void Place(size_t rank, int64_t offset) {
    offsets_[rank] = offset;
    is_placed_[rank] = true;
    if (!has_placed_) reference_ = rank;
    has_placed_ = true;
    for (const RankSteps::Meeting& meeting : ranks_[rank].meetings) {
      step_of_moment_.try_emplace(meeting.moment, meeting.step + offset);
    }
  }

  bool PlaceThoseWhoMet() {
    bool is_any = false;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (is_placed_[rank]) continue;
      if (const auto offset = OffsetByMeetings(rank)) {
        Place(rank, *offset);
        is_any = true;
      }
    }
    return is_any;
  }

  std::optional<int64_t> OffsetByMeetings(size_t rank) const {
    std::map<int64_t, uint64_t> votes;
    for (const RankSteps::Meeting& meeting : ranks_[rank].meetings) {
      const auto at = step_of_moment_.find(meeting.moment);
      if (at != step_of_moment_.end()) ++votes[at->second - meeting.step];
    }
    const auto most =
        std::max_element(votes.begin(), votes.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == votes.end() ? std::nullopt : std::optional(most->first);
  }

  // Returns the offset by time: the middle of the rank's first step lies in a step of the first
  // rank. 0 where it lies in none.
  int64_t OffsetByTime(size_t rank) const {
    const RankSteps::Step& own = ranks_[rank].steps.front();
    const int64_t middle_ns = own.start_ns + (own.end_ns - own.start_ns) / 2;
    for (const RankSteps::Step& step : ranks_[reference_].steps) {
      if (step.start_ns <= middle_ns && middle_ns < step.end_ns) {
        return step.number + offsets_[reference_] - own.number;
      }
    }
    return 0;
  }

  const std::vector<RankSteps>& ranks_;
  std::vector<int64_t> offsets_;
  std::vector<bool> is_placed_;
  bool has_placed_ = false;
  size_t reference_ = 0;
  absl::flat_hash_map<uint32_t, int64_t> step_of_moment_;
};

}  // namespace

std::vector<int64_t> CommonStepOffsets(const std::vector<RankSteps>& ranks) {
  return OffsetFinder(ranks).Find();
}

}  // namespace proftrace
