#include "userspace/fleet_tables/trace_tables.h"

#include <algorithm>
#include <utility>

#include "userspace/base/saturating.h"
#include "userspace/base/text.h"
#include "userspace/collectives/json_text.h"
#include "userspace/model/torch_rules.h"

namespace proftrace {
namespace {

constexpr std::string_view kStepName = "ProfilerStep#";

// Returns Kineto's present category for a category of GPU work; before 2022 the categories had
// other names.
std::string_view KindOfWork(std::string_view category) {
  if (category == "kernel" || category == "Kernel") return "kernel";
  if (category == "gpu_memcpy" || category == "Memcpy") return "gpu_memcpy";
  if (category == "gpu_memset" || category == "Memset") return "gpu_memset";
  return {};
}

bool IsOperator(std::string_view category) {
  return category == "cpu_op" || category == "Operator";
}

int64_t TidOf(const SourceEvent& event) {
  const auto* tid = std::get_if<int64_t>(&event.tid);
  return tid == nullptr ? -1 : *tid;
}

}  // namespace

uint32_t TraceTables::NumberOf(std::string_view name) {
  const auto at = numbers_.find(absl::string_view(name.data(), name.size()));
  if (at != numbers_.end()) return at->second;
  const auto number = static_cast<uint32_t>(names_.size());
  numbers_.emplace(std::string(name), number);
  names_.emplace_back(name);
  return number;
}

void TraceTables::Take(const SourceEvent& event) {
  if (event.phase != 'X' || !event.begin_ns) return;
  if (const std::string_view kind = KindOfWork(event.category); !kind.empty()) {
    TakeDeviceWork(event, kind);
    return;
  }
  const bool is_annotation = event.category == "user_annotation";
  if (is_annotation && event.name.starts_with(kStepName)) {
    TakeStep(event);
    return;
  }
  const int64_t end_ns = *event.begin_ns + event.duration_ns;
  if (IsTitleOfWork(event.name)) {
    collector_.AddCollective(*event.begin_ns, end_ns);
    return;
  }
  if (!is_annotation && !IsOperator(event.category)) return;
  calls_.push_back({TidOf(event), *event.begin_ns, end_ns, NumberOf(event.name), is_annotation});
}

void TraceTables::TakeDeviceWork(const SourceEvent& event, std::string_view kind) {
  int64_t device = 0;
  int64_t bytes = 0;
  ForEachJsonMember(event.args, [&](std::string_view key, std::string_view value) {
    if (key == "device") device = JsonInteger(value).value_or(0);
    if (key == "bytes") bytes = JsonInteger(value).value_or(0);
  });
  const uint32_t name = NumberOf(event.name);
  Work& work = works_[{device, std::string(kind), name}];
  work.durations_ns.push_back(event.duration_ns);
  work.bytes = SaturatingSum(work.bytes, bytes);
  collector_.AddDeviceWork(*event.begin_ns, *event.begin_ns + event.duration_ns,
                           kind == "kernel" && IsCommunicationKernel(event.name));
}

void TraceTables::TakeStep(const SourceEvent& event) {
  const auto number = ParseNumber<int64_t>(event.name.substr(kStepName.size()));
  if (!number) return;
  StepRow row;
  const auto* pid = std::get_if<int64_t>(&event.pid);
  if (pid != nullptr && *pid >= 0 && *pid <= UINT32_MAX) row.pid = static_cast<uint32_t>(*pid);
  const int64_t tid = TidOf(event);
  if (tid >= 0 && tid <= UINT32_MAX) row.tid = static_cast<uint32_t>(tid);
  row.is_main = true;
  row.step = *number;
  row.start_ns = *event.begin_ns;
  row.duration_ns = event.duration_ns;
  row.confidence = Decimal{1, 4};
  steps_.push_back(row);
}

void TraceTables::SumOperators() {
  std::sort(calls_.begin(), calls_.end(), [](const Call& a, const Call& b) {
    return std::tuple(a.tid, a.begin_ns, -a.end_ns) < std::tuple(b.tid, b.begin_ns, -b.end_ns);
  });
  std::vector<const Call*> open;
  std::vector<Sums> sums(2 * names_.size());
  const auto sums_of = [&](const Call& call) -> Sums& {
    return sums[2 * size_t{call.name} + (call.is_annotation ? 1 : 0)];
  };
  int64_t covered_ns = INT64_MIN;
  for (const Call& call : calls_) {
    if (!open.empty() && open.front()->tid != call.tid) {
      open.clear();
      covered_ns = INT64_MIN;
    }
    while (!open.empty() && open.back()->end_ns <= call.begin_ns) open.pop_back();
    const int64_t duration_ns = call.end_ns - call.begin_ns;
    // Where a row outlives the row around it, only the time that both share is taken from the outer
    // row's own time.
    if (!open.empty()) {
      Sums& around = sums_of(*open.back());
      around.self_ns = SaturatingDifference(
          around.self_ns, std::min(call.end_ns, open.back()->end_ns) - call.begin_ns);
    }
    Sums& own = sums_of(call);
    ++own.calls;
    own.self_ns = SaturatingSum(own.self_ns, duration_ns);
    own.total_ns = SaturatingSum(own.total_ns, duration_ns);
    open.push_back(&call);
    if (call.is_annotation || IsCallOfCollective(names_[call.name]) || call.end_ns <= covered_ns) {
      continue;
    }
    covered_ns = call.end_ns;
    collector_.AddOperator(call.begin_ns, call.end_ns);
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    if (sums[i].calls > 0) operators_[{UnescapedJson(names_[i / 2]), i % 2 == 1}] = sums[i];
  }
  calls_.clear();
}

void TraceTables::Finish(int64_t base_ns) {
  SumOperators();
  const ProcessWork work = std::move(collector_).Finish();
  std::sort(steps_.begin(), steps_.end(), [](const StepRow& a, const StepRow& b) {
    return std::tie(a.start_ns, a.step) < std::tie(b.start_ns, b.step);
  });
  for (StepRow& row : steps_) {
    const StepWork of = WorkIn(work, row.start_ns, row.start_ns + row.duration_ns);
    row.gpu_busy_ns = of.gpu_busy_ns;
    row.gpu_compute_ns = of.gpu_compute_ns;
    row.gpu_idle_ns = of.gpu_idle_ns;
    row.comm_ns = of.comm_ns;
    row.comm_overlap_ns = of.comm_overlap_ns;
    row.comm_exposed_ns = of.comm_exposed_ns;
    row.start_ns = SaturatingSum(row.start_ns, base_ns);
  }
}

void TraceTables::ForEachOperator(absl::FunctionRef<bool(const OperatorRow&)> add) const {
  for (const auto& [key, sums] : operators_) {
    OperatorRow row;
    row.name = key.first;
    row.is_annotation = key.second;
    row.calls = sums.calls;
    row.self_ns = sums.self_ns;
    row.total_ns = sums.total_ns;
    if (!add(row)) return;
  }
}

void TraceTables::ForEachKernel(std::optional<int64_t> pid,
                                absl::FunctionRef<bool(const KernelRow&)> add) const {
  for (const auto& [key, work] : works_) {
    const auto& [device, kind, number] = key;
    const std::string name = UnescapedJson(names_[number]);
    KernelRow row;
    row.pid = static_cast<uint32_t>(pid.value_or(0));
    row.device = static_cast<uint32_t>(device);
    row.name = name;
    row.kind = kind;
    row.is_communication = kind == "kernel" && IsCommunicationKernel(name);
    row.bytes = work.bytes;
    SetDurations(work.durations_ns, &row);
    if (!add(row)) return;
  }
}

}  // namespace proftrace
