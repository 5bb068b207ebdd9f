#include <utility>

#include "symbols/process/interned_strings.h"
#include "userspace/capture/process_set.h"
#include "userspace/capture/unreached_code.h"

// The reports of a ProcessSet: how much it records, and what it could not record.

namespace proftrace {

void ProcessSet::AddMissing(Pid pid, const AttachReport& report) {
  if (programs_->is_loaded()) gaps_.AddMissing(pid, report);
}

void ProcessSet::NoteMovedCode() {
  // Jumps lie in the code itself and move with it.
  if (!programs_->is_loaded() || patch_ != nullptr) return;
  const std::set<uint32_t> unreached = gaps_.unreached();
  for (const auto& [pid, plan] : known_.Planned()) {
    if (unreached.contains(Raw(pid))) continue;
    const auto moved = DescribeUnreachedCode(FindMovedCode(pid, plan->modules));
    if (!moved.has_value()) continue;
    gaps_.AddUnreached(pid, *moved + " (since some moment of the recording)");
  }
}

std::optional<SymbolList> ProcessSet::SymbolListOf(Pid pid) const {
  const std::optional<PlannedImage> planned = known_.Find(pid);
  if (!planned) return std::nullopt;
  return SymbolList{planned->plan->torch_data, 0, planned->plan->old_string_abi};
}

LinkSet ProcessSet::AttachCounterAt(Pid pid, uint16_t site) {
  const std::optional<PlannedImage> planned = known_.Find(pid);
  if (!planned || planned->plan == nullptr) return {};
  return proftrace::AttachCounterAt(&probes_, pid, *planned->plan, site);
}

std::vector<Unsupported> ProcessSet::gaps() const {
  GapList::Facts facts;
  facts.of_schemas = schemas_.gaps();
  facts.of_kernel = GapsOfKernel(*programs_);
  facts.loaded = known_.LoadedWithoutProbes();
  facts.waiting_forks = known_.waiting_forks();
  facts.ended_forks = known_.ended_forks();
  facts.replaced_operators = operator_watch_.replaced();
  return gaps_.Describe(facts);
}

}  // namespace proftrace
