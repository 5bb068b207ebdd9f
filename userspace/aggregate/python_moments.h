// Finds when a thread was in which function of Python.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "userspace/aggregate/python_rows.h"

namespace proftrace {

// A stretch of a thread's time in which one function of Python was the innermost.
struct PythonMoment {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  StackId frame = kNoStack;
};

// Turns the rows of a thread into moments without overlaps. Rows must come in the order of their
// begins.
class PythonMoments {
 public:
  void OnRow(const PythonRow& row) {
    CloseUntil(row.start_ns);
    AddUntil(row.start_ns);
    open_.push_back({row.start_ns, row.end_ns, row.frame});
  }

  std::vector<PythonMoment> Take() {
    CloseUntil(std::numeric_limits<int64_t>::max());
    return std::move(moments_);
  }

 private:
  void CloseUntil(int64_t time_ns) {
    while (!open_.empty() && open_.back().end_ns <= time_ns) {
      AddUntil(open_.back().end_ns);
      open_.pop_back();
    }
  }
  void AddUntil(int64_t time_ns) {
    if (!open_.empty() && time_ns > now_ns_) {
      moments_.push_back({now_ns_, time_ns, open_.back().frame});
    }
    now_ns_ = std::max(now_ns_, time_ns);
  }

  std::vector<PythonMoment> open_;
  std::vector<PythonMoment> moments_;
  int64_t now_ns_ = std::numeric_limits<int64_t>::min();
};

}  // namespace proftrace
