#include "userspace/aggregate/function_times.h"

#include <algorithm>

#include "userspace/base/saturating.h"

namespace proftrace {
namespace {

struct OpenFunction {
  uint32_t row = 0;
  uint32_t code = 0;
};

class FunctionSummer {
 public:
  FunctionSummer(const Timeline& timeline, const PythonRows& rows,
                 const std::pair<int64_t, int64_t>& stretch)
      : timeline_(timeline), rows_(rows), stretch_(stretch) {
    sums_.resize(timeline.python_codes().size());
    for (uint32_t code = 0; code < sums_.size(); ++code) sums_[code].code = code;
    is_called_.resize(sums_.size());
    open_.resize(timeline.threads().size());
  }

  void Add(uint32_t index) {
    const PythonRow& row = rows_.at(index);
    const uint32_t code = timeline_.python_frame(row.frame).code;
    if (code >= sums_.size()) return;
    const int64_t ns =
        std::min(row.end_ns, stretch_.second) - std::max(row.start_ns, stretch_.first);
    const bool is_begun = stretch_.first <= row.start_ns && row.start_ns < stretch_.second;
    // A row without a length counts where it begins.
    if (ns < 0 || (ns == 0 && !is_begun)) return;
    is_called_[code] = true;
    std::vector<OpenFunction>& open = open_[Raw(row.thread)];
    while (!open.empty() && rows_.at(open.back().row).end_ns <= row.start_ns) open.pop_back();
    const bool is_recursive = std::any_of(
        open.begin(), open.end(), [&](const OpenFunction& call) { return call.code == code; });
    FunctionTimes& sum = sums_[code];
    if (is_begun) ++sum.calls;
    sum.self_ns = SaturatingSum(sum.self_ns, ns);
    if (!is_recursive) sum.total_ns = SaturatingSum(sum.total_ns, ns);
    if (!open.empty()) {
      FunctionTimes& around = sums_[open.back().code];
      around.self_ns = SaturatingSum(around.self_ns, -ns);
    }
    open.push_back({index, code});
  }

  std::vector<FunctionTimes> Take() {
    std::vector<FunctionTimes> called;
    for (const FunctionTimes& sum : sums_) {
      if (is_called_[sum.code]) called.push_back(sum);
    }
    return called;
  }

 private:
  const Timeline& timeline_;
  const PythonRows& rows_;
  std::pair<int64_t, int64_t> stretch_;
  std::vector<FunctionTimes> sums_;              // by code
  std::vector<bool> is_called_;                  // by code: it has a row in the stretch
  std::vector<std::vector<OpenFunction>> open_;  // by ThreadIndex
};

}  // namespace

std::vector<FunctionTimes> SumFunctions(const Timeline& timeline, const PythonRows& rows,
                                        const std::pair<int64_t, int64_t>& stretch,
                                        const std::vector<bool>* threads) {
  FunctionSummer summer(timeline, rows, stretch);
  for (uint32_t i = 0; i < rows.size(); ++i) {
    if (threads == nullptr || (*threads)[Raw(rows.at(i).thread)]) summer.Add(i);
  }
  return summer.Take();
}

}  // namespace proftrace
