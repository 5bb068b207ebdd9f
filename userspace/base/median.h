#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace proftrace {

// Returns the middle value; of an even number of values, the higher of the two in the middle.
// `values` must not be empty.
template <typename T>
T Median(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace proftrace
