// What the head of a trace tells of the process's place in its job: Kineto's distributedInfo.
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
  std::vector<int32_t> ranks;  // of the job; empty: not known
  int64_t size = 0;            // 0: not known

  // Whether it may be one of gloo's.
  bool may_be_gloo() const;
};

struct JobFacts {
  std::optional<int32_t> rank;
  std::optional<int32_t> world_size;
  std::optional<int64_t> group_count;
  std::vector<GroupFacts> groups;  // in the order in which they were made

  // Returns the ranks of a group of all processes; empty: the size of the job is not known.
  std::vector<int32_t> AllRanks() const;
};

// A longer list of ranks is not believed.
inline constexpr size_t kMostRanksOfGroup = 1 << 20;

// Reads the value of the key, an object or a string that has one (torch 1.13 to 2.11 write numbers
// or texts for the same things). What it does not know is left out.
JobFacts ReadDistributedInfo(std::string_view value);

// Reads "[0, 1, 2]". `is_cut`: with "..." in it, as torch writes long ones (saveNcclMeta), or no
// list.
std::vector<int32_t> ReadRanks(std::string_view text, bool* is_cut);

}  // namespace proftrace
