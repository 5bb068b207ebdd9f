#include "userspace/pipeline/process_choice.h"

#include <string>

#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

std::string RanksText(const std::vector<Target>& targets) {
  std::set<int> ranks;
  for (const Target& target : targets) {
    if (target.rank.has_value()) ranks.insert(*target.rank);
  }
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return text.empty() ? "no rank is known in this recording" : "it has the ranks " + text;
}

std::string PidsText(const std::vector<Target>& targets) {
  std::set<uint32_t> seen;
  std::string text;
  for (const Target& target : targets) {
    if (!seen.insert(Raw(target.pid)).second) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(Raw(target.pid));
    if (target.rank.has_value()) text += " (rank " + std::to_string(*target.rank) + ")";
  }
  return text.empty() ? "it has none" : "it has PID " + text;
}

}  // namespace

absl::StatusOr<std::set<uint32_t>> ChoosePids(const ProcessChoice& choice,
                                              const std::vector<Target>& targets) {
  std::set<uint32_t> pids;
  for (const Target& target : targets) {
    if (choice.pid.has_value() && Raw(target.pid) != *choice.pid) continue;
    if (choice.rank.has_value() && target.rank != choice.rank) continue;
    pids.insert(Raw(target.pid));
  }
  if (!pids.empty() || choice.is_all()) return pids;
  if (choice.pid.has_value()) {
    return Fail(ExitCode::kUsage,
                "--pid " + std::to_string(*choice.pid) + " was not recorded; " + PidsText(targets));
  }
  return Fail(ExitCode::kUsage, "--rank " + std::to_string(*choice.rank) + " was not recorded; " +
                                    RanksText(targets));
}

void KeepProcesses(const std::set<uint32_t>& pids, RecordingInfo* info) {
  const auto is_other = [&pids](const auto& entry) { return !pids.contains(Raw(entry.pid)); };
  std::erase_if(info->targets, is_other);
  std::erase_if(info->gpu_agents, is_other);
  if (info->budget.has_value()) std::erase_if(info->budget->demoted, is_other);
}

}  // namespace proftrace
