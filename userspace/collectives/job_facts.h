// Reads what the head of a trace tells about the process's place in its job: Kineto's
// distributedInfo.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace proftrace {

struct GroupFacts {
  std::string name;
  std::string backend;         // "cpu:gloo,cuda:nccl"; empty: not known
  std::vector<int32_t> ranks;  // ranks in the job; empty where they are not known
  int64_t size = 0;            // 0: not known

  // Returns whether the group may use gloo: its backend says so, or is not known.
  bool may_be_gloo() const;
};

struct JobFacts {
  std::optional<int32_t> rank;
  std::optional<int32_t> world_size;
  std::optional<int64_t> group_count;
  std::vector<GroupFacts> groups;  // in the order in which they were made

  // Returns the ranks of a group of all processes; empty where the size of the job is not known.
  std::vector<int32_t> AllRanks() const;
};

// The longest list of ranks that is believed.
inline constexpr size_t kMostRanksOfGroup = 1 << 20;

// Reads the value of distributedInfo: an object, or a string that holds an object. torch 1.13 to
// 2.11 write the same facts as numbers or as texts. Unknown members are ignored.
JobFacts ReadDistributedInfo(std::string_view value);

// Reads "[0, 1, 2]". Sets `*is_cut` where the text is not a list, or has "..." in it, as torch
// writes long lists (saveNcclMeta).
std::vector<int32_t> ReadRanks(std::string_view text, bool* is_cut);

}  // namespace proftrace
