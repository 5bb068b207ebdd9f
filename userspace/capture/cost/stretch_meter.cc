#include "userspace/capture/cost/stretch_meter.h"

#include <utility>

#include "userspace/base/clock.h"
#include "userspace/capture/targets/process_cpu_times.h"

namespace proftrace {
namespace {

constexpr size_t kMostSites = size_t{1} << 16;

}  // namespace

void StretchMeter::Follow(Pid pid) {
  pids_ = {Raw(pid)};
  followed_ = pid;
  is_open_ = false;
  ended_.reset();
}

int64_t StretchMeter::CpuTimeNs() const {
  int64_t sum_ns = 0;
  for (const uint32_t pid : pids_) sum_ns += CpuTimeOf(Pid{pid}).value_or(0);
  return sum_ns;
}

void StretchMeter::Begin() {
  ended_.reset();
  is_open_ = !pids_.empty();
  open_ = {};
  open_.begin_ns = static_cast<uint64_t>(MonotonicNs());
  open_.begin_cpu_ns = CpuTimeNs();
}

void StretchMeter::Cut() {
  if (!is_open_) return Begin();
  Counts ended = std::exchange(open_, {});
  Begin();
  ended_ = std::move(ended);
}

void StretchMeter::Count(const abi::pt_record& head, bool is_jump) {
  if (!is_open_ || !pids_.contains(head.pid)) return;
  Counts* counts = head.time_ns >= open_.begin_ns                           ? &open_
                   : ended_.has_value() && head.time_ns >= ended_->begin_ns ? &*ended_
                                                                            : nullptr;
  if (counts == nullptr) return;
  if (head.kind == abi::PT_COST || head.kind == abi::PT_COST_AGAIN) {
    ++counts->cost_hits;
    if (head.kind == abi::PT_COST && head.site == 0) ++counts->operators;
    return;
  }
  (is_jump ? counts->jumps : counts->meter).Count(head);
  const bool is_call = head.kind == abi::PT_SPAN_BEGIN || head.kind == abi::PT_OPERATOR_CALL;
  if (!is_call || !followed_.has_value()) return;
  counts->calls_by_site.resize(kMostSites);
  ++counts->calls_by_site[head.site];
}

std::optional<ComparedStretch> StretchMeter::Take(const SystemCost& system) {
  if (!ended_.has_value()) return std::nullopt;
  const LiveMeter::Hits& counted = ended_->meter.all();
  const auto hits = static_cast<double>(counted.hits);
  ComparedStretch stretch;
  stretch.cpu_ns =
      static_cast<double>(open_.begin_cpu_ns - ended_->begin_cpu_ns) - SystemNs(system, counted);
  stretch.hits = hits + static_cast<double>(ended_->cost_hits);
  stretch.readings = static_cast<double>(counted.readings);
  stretch.jumps = static_cast<double>(ended_->jumps.all().hits);
  stretch.stacks = static_cast<double>(ended_->jumps.all().stacks);
  stretch.calls_by_site = std::move(ended_->calls_by_site);
  if (ended_->operators > 0) {
    stretch.operators = static_cast<double>(ended_->operators);
    if (hits > 0) operators_a_hit_ = stretch.operators / hits;
  } else {
    stretch.operators = operators_a_hit_ * hits;
  }
  ended_.reset();
  return stretch;
}

}  // namespace proftrace
