// Finds the collectives among the rows of a trace: what the common clock of a job is computed from.
//
//   rows on a GPU   kernels of NCCL that have the facts of record_param_comms in their args, or the
//                   External id of a row record_param_comms that has: they begin and end as the
//                   collective does
//   gloo:*          works of gloo, on its worker threads: the same for jobs without a GPU
//   record_param_comms alone   the call that enqueues: listed, but it binds no clock
//
// A group is its name and its ranks. gloo's rows name no group: they get one where the head of the
// trace leaves no choice, and else none, which is said.
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
  // Adds groups, calls and what is to be said of them to `facts`, and the rank where the calls tell
  // it; `base_ns` is added to the times of events.
  void Finish(const JobFacts& job, int64_t base_ns, SourceFacts* facts);

 private:
  // A group as a row names it.
  struct GroupKey {
    std::string name;
    std::string ranks;
    int64_t size = 0;

    auto operator<=>(const GroupKey&) const = default;
  };
  static constexpr int64_t kNoGroup = -1;
  // What args say of a collective.
  struct Facts {
    CollectiveFamily family{};
    int64_t key = kNoGroup;  // into keys_
    const ElementType* type = nullptr;
    std::optional<int64_t> in_elements;
    std::optional<int64_t> out_elements;
    std::optional<int64_t> sequence;
    std::optional<int64_t>
        rank;  // as torch has it: the own one in the group, the root's, the peer's
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
    std::optional<Facts> facts;  // none: a kernel of NCCL that does not tell
  };
  // A call of c10d, which names root and peer.
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
  // nullopt: its times are none.
  std::optional<SourceCall> SourceCallOf(const Row& row, const FleetGroup& group,
                                         const std::optional<int32_t>& rank, int64_t base_ns) const;
  static CollectiveCall CallOf(const Row& row, const FleetGroup& group);
  void FindRank(const std::vector<int64_t>& group_of_key, SourceFacts* facts) const;
  int64_t KeyOf(GroupKey key);

  std::vector<Row> rows_;
  std::map<CollectiveFamily, std::vector<Call>> calls_;
  absl::flat_hash_map<std::string, size_t> open_works_;  // "b" events, by their id: places in rows_
  std::map<GroupKey, int64_t> key_numbers_;
  std::vector<GroupKey> keys_;
  std::vector<std::string> descriptions_;  // of the groups of keys_
};

}  // namespace proftrace
