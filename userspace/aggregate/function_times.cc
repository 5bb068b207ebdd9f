#include "userspace/aggregate/function_times.h"

#include <algorithm>
#include <optional>

#include "userspace/base/saturating.h"

namespace proftrace {
namespace {

struct OpenFunction {
  uint32_t row = 0;
  uint32_t code = 0;
};

class FunctionSummer {
 public:
  FunctionSummer(const Timeline& timeline, const PythonRows& rows, const StepWindows* windows)
      : timeline_(timeline), rows_(rows), shares_(windows) {
    sums_.resize(timeline.python_codes().size());
    for (uint32_t code = 0; code < sums_.size(); ++code) sums_[code].code = code;
    open_.resize(timeline.threads().size());
  }

  void Add(uint32_t index) {
    const PythonRow& row = rows_.at(index);
    const uint32_t code = timeline_.python_frame(row.frame).code;
    if (code >= sums_.size()) return;
    std::vector<OpenFunction>& open = open_[Raw(row.thread)];
    while (!open.empty() && rows_.at(open.back().row).end_ns <= row.start_ns) open.pop_back();
    const int64_t ns = row.end_ns - row.start_ns;
    const bool is_recursive = std::any_of(
        open.begin(), open.end(), [&](const OpenFunction& call) { return call.code == code; });
    FunctionTimes& sum = sums_[code];
    ++sum.calls;
    sum.self_ns = SaturatingSum(sum.self_ns, ns);
    if (!is_recursive) sum.total_ns = SaturatingSum(sum.total_ns, ns);
    shares_.Add(row.start_ns, code, {1, is_recursive ? 0 : ns, ns});
    if (!open.empty()) {
      const uint32_t around = open.back().code;
      sums_[around].self_ns = SaturatingSum(sums_[around].self_ns, -ns);
      shares_.Add(row.start_ns, around, {0, 0, -ns});
    }
    open.push_back({index, code});
  }

  std::vector<FunctionTimes> Take(std::vector<WindowShare>* shares) {
    std::vector<std::optional<uint32_t>> numbers(sums_.size());
    std::vector<FunctionTimes> called;
    for (const FunctionTimes& sum : sums_) {
      if (sum.calls == 0) continue;
      numbers[sum.code] = static_cast<uint32_t>(called.size());
      called.push_back(sum);
    }
    if (shares != nullptr) *shares = shares_.Take(numbers);
    return called;
  }

 private:
  const Timeline& timeline_;
  const PythonRows& rows_;
  WindowShares shares_;
  std::vector<FunctionTimes> sums_;              // by code
  std::vector<std::vector<OpenFunction>> open_;  // by ThreadIndex
};

}  // namespace

std::vector<FunctionTimes> SumFunctions(const Timeline& timeline, const PythonRows& rows,
                                        const std::vector<bool>* threads,
                                        const StepWindows* windows,
                                        std::vector<WindowShare>* shares) {
  FunctionSummer summer(timeline, rows, windows);
  for (uint32_t i = 0; i < rows.size(); ++i) {
    if (threads == nullptr || (*threads)[Raw(rows.at(i).thread)]) summer.Add(i);
  }
  return summer.Take(shares);
}

}  // namespace proftrace
