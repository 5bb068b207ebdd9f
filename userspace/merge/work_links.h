// Finds the operator that made each work of a collective. Another thread may execute the work, so
// that its row begins in no other row. Not thread-safe.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "userspace/decode/event.h"
#include "userspace/merge/span_builder.h"
#include "userspace/model/timeline.h"

namespace proftrace {

class WorkLinks {
 public:
  // `timeline` must outlive this.
  explicit WorkLinks(TimelineBuilder* timeline) : timeline_(timeline) {}

  // Adds the event to `spans`, which fills the timeline, and links its row.
  absl::Status Add(const Event& event, SpanBuilder* spans);

 private:
  using Key = std::pair<uint32_t, uint64_t>;

  // Returns whether rows of the label are operators of c10d, which make works.
  bool MakesWorks(LabelId label);

  TimelineBuilder* timeline_;
  std::vector<int8_t> makes_works_;  // by LabelId; -1 = not known yet
  // The operator of c10d that began last on each thread, by pid and tid.
  absl::flat_hash_map<Key, SpanId> operators_;
  // The operators of the works whose rows have not begun, by pid and the work's address.
  absl::flat_hash_map<Key, SpanId> works_;
};

}  // namespace proftrace
