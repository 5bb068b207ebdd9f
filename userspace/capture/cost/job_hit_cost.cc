#include "userspace/capture/cost/job_hit_cost.h"

#include "userspace/base/median.h"

namespace proftrace {
namespace {

std::optional<double> MedianGap(const std::vector<uint64_t>& gaps_ns) {
  if (gaps_ns.size() < JobHitCost::kFewestPairs) return std::nullopt;
  return static_cast<double>(Median(gaps_ns));
}

}  // namespace

void JobHitCost::Observe(const abi::pt_record& record) {
  Last& last = last_[record.tid];
  const auto note = [&](std::vector<uint64_t>* gaps) {
    if (gaps->size() < kEnoughPairs) gaps->push_back(record.time_ns - last.time_ns);
  };
  switch (record.kind) {
    case abi::PT_COST:
      // The probe of site 0 lies in the function that every operator calls, so it is hit behind
      // each begin at a call of that function.
      if (record.site == 0 || last.site == record.site) {
        if (last.kind == abi::PT_SPAN_BEGIN) note(&begins_ns_);
        if (last.kind == abi::PT_OPERATOR_CALL) note(&calls_ns_);
      }
      break;
    case abi::PT_COST_AGAIN:
      if (last.kind == abi::PT_COST) note(&costs_ns_);
      last = Last{};
      return;
    case abi::PT_SPAN_BEGIN:
    case abi::PT_OPERATOR_CALL:
      break;
    default:
      last = Last{};
      return;
  }
  last = Last{record.time_ns, record.site, record.kind};
}

std::optional<double> JobHitCost::median_ns() {
  // Where no inputs are read, all begins are alike. Where they are, only few begins read none, and
  // these are not typical.
  return MedianGap(calls_ns_.empty() ? begins_ns_ : costs_ns_);
}

std::optional<double> JobHitCost::median_call_ns() { return MedianGap(calls_ns_); }

}  // namespace proftrace
