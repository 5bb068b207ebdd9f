#include "userspace/base/stretches.h"

#include <algorithm>

namespace proftrace {

Stretches UnionOf(std::vector<Stretch> stretches) {
  std::erase_if(stretches, [](const Stretch& one) { return one.second <= one.first; });
  std::sort(stretches.begin(), stretches.end());
  size_t kept = 0;
  for (size_t i = 0; i < stretches.size(); ++i) {
    if (kept > 0 && stretches[i].first <= stretches[kept - 1].second) {
      stretches[kept - 1].second = std::max(stretches[kept - 1].second, stretches[i].second);
    } else {
      stretches[kept++] = stretches[i];
    }
  }
  stretches.resize(kept);
  return stretches;
}

Stretches CommonOf(const Stretches& a, const Stretches& b) {
  Stretches common;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const int64_t begin = std::max(a[i].first, b[j].first);
    const int64_t end = std::min(a[i].second, b[j].second);
    if (begin < end) common.emplace_back(begin, end);
    (a[i].second < b[j].second ? i : j) += 1;
  }
  return common;
}

int64_t LengthOf(const Stretches& stretches) {
  int64_t length = 0;
  for (const auto& [begin, end] : stretches) length += end - begin;
  return length;
}

int64_t LengthIn(const Stretches& stretches, int64_t begin, int64_t end) {
  auto at =
      std::upper_bound(stretches.begin(), stretches.end(), begin,
                       [](int64_t time, const Stretch& stretch) { return time < stretch.second; });
  int64_t length = 0;
  for (; at != stretches.end() && at->first < end; ++at) {
    length += std::min(at->second, end) - std::max(at->first, begin);
  }
  return length;
}

}  // namespace proftrace
