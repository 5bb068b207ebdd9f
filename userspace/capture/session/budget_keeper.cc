#include "userspace/capture/session/budget_keeper.h"

#include <algorithm>
#include <utility>

#include "bpf/abi/demotions.h"
#include "bpf/abi/patch_memory.h"

namespace proftrace {
namespace {

constexpr int64_t kLookNs = 250'000'000;
// How many looks a demoted operator's open calls are waited for. The row of a call that is open for
// longer ends with the row that encloses it.
constexpr int kMostLooksOpen = 8;
// Steps are looked for only at every fourth look, because that takes long.
constexpr int kLooksASearch = 4;
constexpr size_t kMostOfProcess = PATCH_COUNTERS - 1;

double Since(uint64_t now, uint64_t before) {
  return now > before ? static_cast<double>(now - before) : 0;
}

std::optional<double> MedianUs(std::vector<int64_t> durations_ns) {
  if (durations_ns.empty()) return std::nullopt;
  const auto middle = durations_ns.begin() + static_cast<std::ptrdiff_t>(durations_ns.size() / 2);
  std::nth_element(durations_ns.begin(), middle, durations_ns.end());
  return static_cast<double>(*middle) * 1e-3;
}

}  // namespace

BudgetCosts BudgetKeeper::CostsOf(const HitCost& hit) const {
  const double a_hit = hit.in_job.value_or(hit.in_tracer);
  const double count_share =
      hit.in_tracer > 0 ? parts_.programs->ns_per_count() / hit.in_tracer : 1;
  const bool loses_ends = parts_.patch == nullptr && parts_.programs->can_exchange_links();
  const auto probes = static_cast<double>(parts_.probe_meter->all().hits);
  const auto jumps = static_cast<double>(parts_.jump_meter->all().hits);
  const double jump_share = parts_.patch != nullptr && jumps > 0 ? jumps / (probes + jumps) : 0;
  BudgetCosts costs;
  costs.can_remove = loses_ends && !options_.keeps_counting;
  const double stacks_a_jump =
      jumps > 0 ? static_cast<double>(parts_.jump_meter->all().stacks) / jumps : 0;
  const double a_jump = hit.jump.value_or(0) + stacks_a_jump * hit.stack.value_or(0);
  costs.recorded = jump_share * 2 * a_jump +
                   (1 - jump_share) * (a_hit + std::max(a_hit, hit.call_in_job.value_or(0)));
  costs.counted = jump_share * 2 * hit.count_jump.value_or(0) +
                  (1 - jump_share) * (loses_ends ? 1 : 2) * a_hit * count_share;
  return costs;
}

double BudgetKeeper::CostBetween(const Hits& before, const Hits& now, const HitCost& hit) {
  const double a_hit = hit.in_job.value_or(hit.in_tracer);
  const double a_reading = hit.call_in_job ? std::max(0.0, *hit.call_in_job - a_hit) : 0;
  LiveMeter::Hits system;
  system.system = now.probes.system - before.probes.system;
  system.faults = now.probes.faults - before.probes.faults;
  return Since(now.probes.hits, before.probes.hits) * a_hit +
         Since(now.probes.readings, before.probes.readings) * a_reading +
         SystemNs(hit.system.value_or(SystemCost()), system) +
         Since(now.jumps.hits, before.jumps.hits) * hit.jump.value_or(0) +
         Since(now.jumps.stacks, before.jumps.stacks) * hit.stack.value_or(0);
}

DemotionRank BudgetKeeper::RankOf(Pid pid, uint16_t site) const {
  const OperatorMeter::Traits traits = meter_.TraitsOf(pid, site);
  if (traits.has_children || !parts_.processes->IsDemotable(pid, site)) return DemotionRank::kNever;
  if (!traits.is_outermost) return DemotionRank::kUsual;
  if (options_.keeps_steps) return DemotionRank::kNever;
  return has_steps_ ? DemotionRank::kLast : DemotionRank::kUsual;
}

// Returns the nanoseconds of CPU time that the process used since the last look, without the time
// that recording it took, but at least a hundredth of the whole. 0: the time is not known.
int64_t BudgetKeeper::TimeWithoutRecording(uint32_t pid, const BudgetLook& look) {
  const int64_t used_ns = parts_.cpu_times->TakeUsed(Pid{pid}).value_or(0);
  return std::max(used_ns - static_cast<int64_t>(look.cost_ns), used_ns / 100);
}

std::map<uint32_t, BudgetLook> BudgetKeeper::TakeLooks(const HitCost& hit,
                                                       const BudgetCosts& costs) {
  std::map<uint32_t, BudgetLook> looks;
  for (const auto& [pid, process] : processes_) looks[pid];
  std::map<uint32_t, Hits> hits;
  for (const OperatorMeter::ThreadUse& thread : meter_.Take()) {
    BudgetLook& look = looks[Raw(thread.pid)];
    Hits& now = hits[thread.tid];
    now = {parts_.probe_meter->HitsOf(thread.tid), parts_.jump_meter->HitsOf(thread.tid)};
    look.cost_ns += CostBetween(last_hits_[thread.tid], now, hit);
    for (const auto& [site, use] : thread.sites) {
      look.recorded.push_back({site, use.calls, use.duration_ns, RankOf(thread.pid, site)});
    }
  }
  last_hits_ = std::move(hits);
  AddCounted(costs, &looks);
  for (auto& [pid, look] : looks) look.elapsed_ns = TimeWithoutRecording(pid, look);
  return looks;
}

void BudgetKeeper::ReadCalls(Demotion* demotion) {
  if (demotion->is_over) return;
  uint64_t calls = parts_.programs->CountedCalls(demotion->number);
  if (parts_.patch != nullptr) calls += parts_.patch->CountedCalls(demotion->number);
  demotion->what.calls = std::max(demotion->what.calls, calls);
}

void BudgetKeeper::AddCounted(const BudgetCosts& costs, std::map<uint32_t, BudgetLook>* looks) {
  for (Demotion& demotion : demotions_) {
    const uint64_t before = demotion.what.calls;
    ReadCalls(&demotion);
    const auto process = processes_.find(Raw(demotion.what.pid));
    if (process == processes_.end() || demotion.is_over) continue;
    const double calls = static_cast<double>(demotion.what.calls - before);
    process->second.counted_ns += calls * costs.counted;
    BudgetLook& look = (*looks)[Raw(demotion.what.pid)];
    look.cost_ns += calls * costs.counted;
    if (demotion.is_removed) continue;
    look.counted.push_back({demotion.what.site, static_cast<uint64_t>(calls)});
  }
}

bool BudgetKeeper::Demote(Pid pid, uint16_t site, uint32_t number, State state) {
  const bool records_ends = state == State::kBegins;
  if (parts_.patch != nullptr && !parts_.patch->Demote(pid, site, number, records_ends)) {
    return false;
  }
  return parts_.programs
      ->Demote(pid, site, number, records_ends ? abi::PT_DEMOTION_BEGINS : abi::PT_DEMOTION_WHOLE)
      .ok();
}

void BudgetKeeper::Apply(Pid pid, Process* process, const BudgetChange& change, int64_t now_ns) {
  if (first_change_ns_ == 0) first_change_ns_ = now_ns;
  process->is_settled = process->is_told = false;
  if (change.step == BudgetStep::kRemove) {
    for (Demotion& demotion : demotions_) {
      if (demotion.is_over || demotion.what.pid != pid || demotion.what.site != change.site) {
        continue;
      }
      demotion.is_removed = true;
      process->removed.all.insert(change.site);
    }
    return;
  }
  const auto number = static_cast<uint32_t>(demotions_.size()) + 1;
  if (number >= PT_MOST_DEMOTIONS || process->demoted >= kMostOfProcess) return;
  if (!Demote(pid, change.site, number, State::kBegins)) return;
  ++process->demoted;
  Demotion& demotion = demotions_.emplace_back();
  demotion.number = number;
  demotion.what.pid = pid;
  demotion.what.site = change.site;
  const std::optional<Label> label = parts_.processes->SiteLabel(pid, change.site);
  if (label.has_value()) demotion.what.name = label->name;
  demotion.what.since_ns = now_ns;
}

bool BudgetKeeper::IsSettled(Pid pid) const {
  return !parts_.processes->IsRemovingProbes(pid) &&
         std::none_of(demotions_.begin(), demotions_.end(), [pid](const Demotion& demotion) {
           return demotion.what.pid == pid && !demotion.is_over && demotion.state == State::kBegins;
         });
}

void BudgetKeeper::Advance(int64_t now_ns) {
  for (Demotion& demotion : demotions_) {
    if (demotion.is_over || demotion.state != State::kBegins) continue;
    const Pid pid = demotion.what.pid;
    const bool is_open = meter_.TraitsOf(pid, demotion.what.site).open > 0;
    if (++demotion.looks < 2 || (is_open && demotion.looks < kMostLooksOpen)) continue;
    (void)Demote(pid, demotion.what.site, demotion.number, State::kWhole);
    demotion.state = State::kWhole;
    const auto process = processes_.find(Raw(pid));
    if (process != processes_.end()) process->second.removed.ends.insert(demotion.what.site);
  }
  for (auto& [pid, process] : processes_) {
    if (process.is_settled || !IsSettled(Pid{pid})) continue;
    // Calls are not waited for any more, so probes that are not needed can be taken out.
    if (const RemovedProbes removed = std::exchange(process.removed, {}); !removed.empty()) {
      parts_.processes->RemoveProbes(Pid{pid}, removed);
      continue;
    }
    process.is_settled = true;
    last_change_ns_ = now_ns;
    for (Demotion& demotion : demotions_) {
      const bool is_gone = demotion.is_removed && demotion.what.removed_ns == 0;
      if (is_gone && demotion.what.pid == Pid{pid}) demotion.what.removed_ns = now_ns;
    }
  }
}

bool BudgetKeeper::IsDue(int64_t now_ns) const {
  return !is_finished_ && now_ns - last_look_ns_ >= kLookNs;
}

std::vector<BudgetNews> BudgetKeeper::Look(int64_t now_ns, const HitCost& hit) {
  std::vector<BudgetNews> news;
  last_look_ns_ = now_ns;
  if (looks_++ % kLooksASearch == 0) has_steps_ = parts_.steps->Find().has_value();
  const BudgetCosts costs = CostsOf(hit);
  std::map<uint32_t, BudgetLook> looks = TakeLooks(hit, costs);
  for (auto& [pid, look] : looks) {
    Process& process =
        processes_.try_emplace(pid, OverheadBudget(options_.max_percent, costs)).first->second;
    process.budget.SetCosts(costs);
    if (!process.is_settled || look.elapsed_ns <= 0) continue;
    BudgetNews of_process{.pid = Pid{pid}, .demoted = {}, .measured_percent = std::nullopt};
    const size_t before = demotions_.size();
    for (const BudgetChange& change : process.budget.Look(std::move(look))) {
      Apply(Pid{pid}, &process, change, now_ns);
    }
    for (size_t i = before; i < demotions_.size(); ++i) {
      of_process.demoted.push_back(demotions_[i].what.name);
    }
    if (!process.is_told && process.budget.has_measured()) {
      process.is_told = true;
      of_process.measured_percent = process.budget.after_percent();
    }
    if (of_process.demoted.empty() && !of_process.measured_percent.has_value()) continue;
    news.push_back(std::move(of_process));
  }
  Advance(now_ns);
  return news;
}

void BudgetKeeper::OnProcessEnd(Pid pid, int64_t time_ns) {
  if (is_finished_) return;
  for (Demotion& demotion : demotions_) {
    if (demotion.is_over || demotion.what.pid != pid) continue;
    ReadCalls(&demotion);
    demotion.is_over = true;
    demotion.what.until_ns = time_ns;
  }
  meter_.Forget(pid);
  const auto it = processes_.find(Raw(pid));
  if (it == processes_.end()) return;
  ended_.Add(it->second);
  processes_.erase(it);
}

void BudgetKeeper::Finish(int64_t now_ns) {
  is_finished_ = true;
  for (Demotion& demotion : demotions_) {
    ReadCalls(&demotion);
    if (demotion.is_removed && demotion.what.removed_ns == 0) demotion.what.removed_ns = now_ns;
    demotion.is_over = true;
  }
}

void BudgetKeeper::SetSteps(Budget* budget) const {
  const std::optional<RecordedSteps> steps = parts_.steps->Find();
  if (!steps.has_value() || first_change_ns_ == 0) return;
  std::vector<int64_t> before_ns;
  std::vector<int64_t> after_ns;
  for (const auto& [start_ns, end_ns] : steps->intervals) {
    if (end_ns <= first_change_ns_) before_ns.push_back(end_ns - start_ns);
    if (last_change_ns_ != 0 && start_ns >= last_change_ns_) after_ns.push_back(end_ns - start_ns);
  }
  budget->step_before_us = MedianUs(std::move(before_ns));
  budget->step_after_us = MedianUs(std::move(after_ns));
}

void BudgetKeeper::Outcome::Add(const Process& process) {
  const OverheadBudget& budget = process.budget;
  is_known = true;
  is_kept &= budget.is_kept();
  counted_ns = std::max(counted_ns, process.counted_ns);
  if (budget.before_percent().value_or(0) < before_percent.value_or(0)) return;
  before_percent = budget.before_percent();
  after_percent = budget.after_percent();
}

Budget BudgetKeeper::Describe(double estimated_percent) const {
  Outcome all = ended_;
  for (const auto& [pid, process] : processes_) all.Add(process);
  Budget budget;
  budget.max_overhead_percent = options_.max_percent;
  budget.is_kept = all.is_known ? all.is_kept : estimated_percent <= options_.max_percent;
  budget.before_percent = all.before_percent;
  budget.after_percent = all.after_percent;
  SetSteps(&budget);
  for (const Demotion& demotion : demotions_) budget.demoted.push_back(demotion.what);
  return budget;
}

uint64_t BudgetKeeper::counted_calls() const {
  uint64_t calls = 0;
  for (const Demotion& demotion : demotions_) calls += demotion.what.calls;
  return calls;
}

double BudgetKeeper::counted_ns() const {
  Outcome all = ended_;
  for (const auto& [pid, process] : processes_) all.Add(process);
  return all.counted_ns;
}

}  // namespace proftrace
