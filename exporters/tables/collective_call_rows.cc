#include "exporters/tables/collective_call_rows.h"

#include <algorithm>
#include <array>
#include <utility>

#include "userspace/base/stable_hash.h"
#include "userspace/collectives/collective_names.h"

namespace proftrace {
namespace {

constexpr std::array<std::string_view, 3> kSources = {"kernel", "gloo", "host"};

// Finds the step of a process that a time lies in.
class StepFinderOfProcess {
 public:
  StepFinderOfProcess(const Steps& steps, Pid pid) {
    for (const ProcessSteps& process : steps.processes) {
      if (process.pid == pid) steps_ = &process.steps;
    }
  }

  std::optional<int64_t> At(int64_t time_ns) const {
    if (steps_ == nullptr) return std::nullopt;
    const auto after =
        std::upper_bound(steps_->begin(), steps_->end(), time_ns,
                         [](int64_t time, const Step& step) { return time < step.start_ns; });
    if (after == steps_->begin() || (after - 1)->end_ns <= time_ns) return std::nullopt;
    return (after - 1)->number;
  }

 private:
  const std::vector<Step>* steps_ = nullptr;
};

}  // namespace

GroupTexts TextsOfGroup(const FleetGroup& group, const std::string& description,
                        std::optional<int32_t> attempt) {
  GroupTexts texts;
  if (group.ranks.empty()) return texts;
  std::vector<int32_t> ranks = group.ranks;
  std::sort(ranks.begin(), ranks.end());
  StableHash hash;
  hash.Add(group.name);
  if (attempt) hash.Add(*attempt);
  for (const int32_t rank : ranks) {
    hash.Add(rank);
    if (!texts.members.empty()) texts.members += ",";
    texts.members += std::to_string(rank);
  }
  texts.key = hash.Hex();
  texts.name = group.name;
  texts.description = description;
  texts.size = static_cast<int64_t>(ranks.size());
  return texts;
}

CollectiveCallRow RowOfCall(const SourceCall& call, const GroupTexts& group,
                            int64_t unix_offset_ns) {
  CollectiveCallRow row;
  row.group_key = group.key;
  row.group_name = group.name;
  row.group_desc = group.description;
  row.group_size = group.size;
  row.members = group.members;
  row.seq = call.call.sequence;
  const std::string_view op = call.op;
  const size_t slash = op.find('/');
  row.op = op.substr(0, slash);
  if (slash != std::string_view::npos) row.dtype = op.substr(slash + 1);
  const bool is_send = row.op == CollectiveFamilyName(CollectiveFamily::kSend);
  row.is_p2p = is_send || row.op == CollectiveFamilyName(CollectiveFamily::kRecv);
  if (row.is_p2p) {
    const int32_t peer = is_send ? call.call.destination : call.call.source;
    if (peer >= 0) row.peer = peer;
  }
  row.in_bytes = call.in_bytes;
  row.out_bytes = call.out_bytes;
  row.device = call.device;
  row.stream = call.stream;
  if (call.launch_ns) row.launch_ns = *call.launch_ns + unix_offset_ns;
  row.begin_ns = call.call.entered_ns + unix_offset_ns;
  row.end_ns = call.call.left_ns + unix_offset_ns;
  row.source = kSources[static_cast<size_t>(call.place)];
  return row;
}

void ForEachCollectiveCallRow(const Timeline& timeline, const Steps& steps,
                              const std::vector<ProcessCalls>& processes,
                              absl::FunctionRef<bool(const CollectiveCallRow&)> add) {
  const int64_t offset_ns = timeline.info().window.monotonic_to_unix_ns;
  for (const ProcessCalls& process : processes) {
    const SourceFacts& facts = process.facts;
    std::vector<GroupTexts> groups;
    for (size_t i = 0; i < facts.groups.size(); ++i) {
      groups.push_back(TextsOfGroup(facts.groups[i], facts.group_descriptions[i]));
    }
    const GroupTexts none;
    std::vector<std::pair<const SourceCall*, const GroupTexts*>> calls;
    for (const SourceCall& call : facts.calls) {
      calls.emplace_back(&call, &groups[call.call.group]);
    }
    for (const SourceCall& call : facts.calls_without_group) calls.emplace_back(&call, &none);
    std::stable_sort(calls.begin(), calls.end(), [](const auto& a, const auto& b) {
      return a.first->call.entered_ns < b.first->call.entered_ns;
    });
    const StepFinderOfProcess finder(steps, process.pid);
    for (const auto& [call, group] : calls) {
      CollectiveCallRow row = RowOfCall(*call, *group, offset_ns);
      row.pid = Raw(process.pid);
      row.step = finder.At(call->call.entered_ns);
      if (!add(row)) return;
    }
  }
}

}  // namespace proftrace
