
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "userspace/base/exit_status.h"
#include "userspace/capture/plans/process_plan.h"
#include "userspace/capture/session/record_session.h"
#include "userspace/capture/targets/target_info.h"

// Whether operators are recorded by the kernel's probes or by jumps.

namespace proftrace {
TierChooser::PlansByProcess RecordSession::PlansToCount() const {
  TierChooser::PlansByProcess found;
  for (const auto& [pid, plan] : plans_) {
    if (plan.ok()) found.emplace_back(pid, &*plan);
  }
  const size_t named = found.size();
  for (const auto& [pid, plan] : child_plans_) {
    if (plan.ok()) found.emplace_back(Pid{pid}, &*plan);
  }
  // Forked children get their parents' plans.
  for (const Pid child : FindChildrenWithTorch()) {
    if (child_plans_.contains(Raw(child))) continue;
    Pid ancestor = child;
    for (int i = 0; i < kMostGenerations && Raw(ancestor) != 0; ++i) {
      ancestor = ReadParent(ancestor);
      const auto end = found.begin() + static_cast<std::ptrdiff_t>(named);
      const auto of = std::find_if(found.begin(), end,
                                   [&](const auto& known) { return known.first == ancestor; });
      if (of == end) continue;
      found.emplace_back(child, of->second);
      break;
    }
  }
  return found;
}

absl::Status RecordSession::ChooseTier() {
  if (options_.tier != Tier::kAuto || !options_.info.system.operators) return absl::OkStatus();
  TierChooser::Chosen chosen;
  if (tier_.NeedsCount(*programs_)) {
    processes_ = MakeProcesses();
    const auto counted = tier_.Count(PlansToCount(), *programs_, processes_.get(),
                                     [this](int timeout_ms) { return Drain(timeout_ms); });
    processes_.reset();
    if (!counted.ok()) return counted.status();
    chosen = tier_.ChooseByCount(*counted, *programs_, cost_.UsualProbeNsPerOperator());
  } else {
    chosen = tier_.ChooseWithoutCount(*programs_);
  }
  puts_jumps_ = chosen.puts_jumps;
  stay_on_probes_ = std::move(chosen.stay_on_probes);
  info_.tier = puts_jumps_ ? "patch" : "bpf";
  info_.tier_choice = std::move(chosen.told);
  return absl::OkStatus();
}

absl::Status RecordSession::PrepareJumps() {
  const absl::StatusOr<JumpCost> jump_cost = MeasureJumpCost();
  if (!jump_cost.ok()) return jump_cost.status();
  cost_.SetJumpCost(*jump_cost);
  // The BPF programs are loaded anew, because those that read stacks have to know of the jumps
  // beside them.
  if (options_.tier == Tier::kAuto && options_.bpf.with_stack && programs_->is_loaded()) {
    programs_.reset();
    if (absl::Status status = LoadPrograms(); !status.ok()) return status;
  }
  patch_ = std::make_unique<PatchRecorder>(
      /*alone=*/!programs_->is_loaded(), options_.bpf.with_stack, options_.plan.cache_directory,
      [this](std::span<const std::byte> record) {
        if (processes_ != nullptr) processes_->OnModule(record);
      });
  if (options_.bpf.with_stack) {
    stacks_ = std::make_unique<StackMerger>([this](Pid pid, uint64_t code, uint32_t copy) {
      return patch_->DistanceOfCopy(pid, code, copy);
    });
  }
  return absl::OkStatus();
}

absl::Status RecordSession::WithoutEitherTier(const absl::Status& attached) const {
  if (options_.tier != Tier::kAuto || without_bpf_.empty() || options_.without_bpf) return attached;
  return Fail(ExitCodeOf(attached), without_bpf_ +
                                        "; and jumps, which need no eBPF, cannot be used: " +
                                        std::string(attached.message()));
}

bool RecordSession::NoteTier() {
  if (!info_.tier_choice.has_value() || patch_ == nullptr) return false;
  const bool has_jumps = patch_->has_patched() || processes_->process_count() == 0;
  const std::string before = std::exchange(info_.tier, has_jumps ? "patch" : "bpf");
  return info_.tier != before;
}

void RecordSession::TellTier() {
  if (!info_.tier_choice.has_value()) return;
  TierChoice& choice = *info_.tier_choice;
  NoteTier();
  // Processes that turned out to be unfit for jumps have probes.
  const std::string why = processes_->jumps_refused();
  if (info_.tier == "bpf" && !why.empty()) {
    choice.are_jumps_refused = true;
    choice.reason += ", and jumps cannot be used: " + why;
  }
  sink_.AddMetadata([&](MetadataWriter& writer) { writer.AddTierChoice(choice); });
  // Where there is no eBPF, the user learns that by on_without_bpf instead.
  if (callbacks_.on_tier && without_bpf_.empty()) callbacks_.on_tier(info_.tier, choice);
}

}  // namespace proftrace
