// Finds the collectives among the rows of a trace. The common clock of a job is computed from them.
//
//   rows on a GPU   kernels of NCCL that have the facts of record_param_comms in their args, or the
//                   External id of a row record_param_comms that has: they begin and end as the
//                   collective does
//   gloo:*          works of gloo, on its worker threads: the same for jobs without a GPU
//   record_param_comms alone   the call that enqueues: listed, but it binds no clock
//
// A group is identified by its name and its ranks. gloo's rows name no group: they get one where
// the head of the trace leaves no choice. Otherwise they get none, and a remark says so.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "userspace/collectives/collective_names.h"
#include "userspace/collectives/job_facts.h"
#include "userspace/collectives/source_input.h"

namespace proftrace {

class CollectiveRows {
 public:
  void Take(const SourceEvent& event);
  // Notes that rows of the process may be missing between these times. Collectives within or after
  // the gap are not matched by counting on from those before it.
  void NoteLoss(int64_t after_ns, int64_t until_ns) { losses_.emplace_back(after_ns, until_ns); }
  // Adds groups, calls and remarks on them to `facts`, and the rank where the calls tell it.
  // `base_ns` is added to the times of events.
  void Finish(const JobFacts& job, int64_t base_ns, SourceFacts* facts);

 private:
  // The identity of a group, as a row names it.
  struct GroupKey {
    std::string name;
    std::string ranks;
    int64_t size = 0;

    auto operator<=>(const GroupKey&) const = default;
  };
  static constexpr int64_t kNoGroup = -1;
  // The facts of a collective that the args of its row tell.
  struct Facts {
    CollectiveFamily family{};
    int64_t key = kNoGroup;  // into keys_
    const ElementType* type = nullptr;
    std::optional<int64_t> in_elements;
    std::optional<int64_t> out_elements;
    std::optional<int64_t> sequence;
    std::optional<int64_t>
        // Torch's "rank": the process's own rank in the group, or that of the root or the peer.
        rank;
    std::optional<int64_t> peer;  // torch's "Src Rank" or "Dst Rank": the peer's rank in the job
    bool has_empty_part = false;  // a split of no elements
  };
  struct Row {
    CallPlace place{};
    int64_t begin_ns = 0;
    int64_t end_ns = 0;
    int64_t tid = 0;
    std::optional<int64_t> external_id;
    std::optional<int64_t> device;
    std::optional<int64_t> stream;
    std::optional<int64_t> launch_ns;
    std::optional<Facts> facts;  // nullopt: a kernel of NCCL whose args name no collective
  };
  // A call of c10d, which tells the rank of the root or the peer.
  struct Call {
    int64_t begin_ns = 0;
    int64_t rank = 0;
  };

  std::optional<Facts> FactsOf(std::string_view args, std::string_view name);
  void TakeWork(const SourceEvent& event, CollectiveFamily family);
  void TakeCall(const SourceEvent& event, CollectiveFamily family);
  void JoinKernels();
  void FindRootsOfWorks(bool is_one_group);
  void FindGroupsOfWorks(const JobFacts& job, SourceFacts* facts);
  std::vector<int32_t> RanksOf(const GroupKey& key, const JobFacts& job) const;
  void AddCalls(const JobFacts& job, int64_t base_ns, SourceFacts* facts);
  void MarkLosses(int64_t base_ns, std::vector<SourceCall>* calls);
  // Returns nullopt where the row's times are not valid.
  std::optional<SourceCall> SourceCallOf(const Row& row, const FleetGroup& group,
                                         const std::optional<int32_t>& rank, int64_t base_ns) const;
  // Returns whether the rank gives or takes no elements, so that it need not wait or be waited for.
  static bool IsEmpty(const Facts& facts);
  static CollectiveCall CallOf(const Row& row, const FleetGroup& group);
  void FindRank(const std::vector<int64_t>& group_of_key, SourceFacts* facts) const;
  int64_t KeyOf(GroupKey key);

  std::vector<Row> rows_;
  std::vector<std::pair<int64_t, int64_t>> losses_;  // begin and end
  std::map<CollectiveFamily, std::vector<Call>> calls_;
  // "b" events without their "e" yet: from the name and id to the index in rows_.
  absl::flat_hash_map<std::string, size_t> open_works_;
  std::map<GroupKey, int64_t> key_numbers_;
  std::vector<GroupKey> keys_;
  std::vector<std::string> descriptions_;  // descriptions of the groups in keys_
};

}  // namespace proftrace
