// The dumps of many processes, folded: those whose main thread has the same stack are one group,
// and what is odd comes first. In a distributed job that hangs, the odd ones are the ranks that the
// others wait for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "userspace/cli/process_dump.h"
#include "userspace/model/process_group.h"

namespace proftrace {

// How many collectives of a process group a rank has begun.
struct BegunCollectives {
  ProcessGroup group;
  uint64_t count = 0;
};

// A process and what is known of its place in a job.
struct RankDump {
  ProcessDump dump;
  uint32_t host = 0;  // index into JobDumps::hosts: a PID is one process on one of them
  Pid parent{};
  std::optional<int> rank;
  std::optional<int> world_size;
  std::optional<int> local_world_size;
  std::string job;  // equal texts are one job; empty = it is of none
  std::vector<BegunCollectives> begun;
};

// Tells jobs apart that have one name, as in containers that use the same port: where a rank is
// there twice, what started its process is added to the name.
void TellJobsApart(std::vector<RankDump>* dumps);

// A collective of torch.distributed that a thread is in.
struct EnteredCollective {
  std::string name;  // the function that the job called: "all_reduce"
  std::string file;  // from where; empty = that could not be read
  std::optional<int32_t> line;

  bool operator==(const EnteredCollective&) const = default;
};

// Returns for each dump whether it is of a rank itself: workers of a DataLoader inherit their
// parent's rank, and launchers have none. Where nobody has a rank, each process is one.
std::vector<bool> AreRanks(const std::vector<RankDump>& dumps);

// Finds the call of torch.distributed in a stack (innermost frame first). nullopt: the thread is in
// none that Python knows of.
std::optional<EnteredCollective> CollectiveOfStack(const DumpedStack& stack);

struct DumpGroup {
  std::string job;
  std::vector<size_t> members;  // indices into the dumps, by rank, then by PID
  bool is_of_ranks = false;     // else helpers: workers of a DataLoader, a launcher
  std::optional<EnteredCollective> collective;
};

// Returns the ranks of a group, in its order.
std::vector<int> RanksIn(const std::vector<RankDump>& dumps, const DumpGroup& group);

// Returns the main thread's stack, else that of the first thread that runs Python. Null: none does.
const DumpedStack* MainStack(const ProcessDump& dump);
const DumpedThread* MainThread(const ProcessDump& dump);

// Folds the dumps. Ranks come before helpers; of each job smaller groups before larger ones, of
// equally large ones those that are in no call of torch.distributed.
std::vector<DumpGroup> FoldDumps(const std::vector<RankDump>& dumps);

// What a job waits for, told from where most of its ranks are.
struct MissingRanks {
  std::string job;
  EnteredCollective collective;  // where the others are
  std::vector<int> waiting;      // ranks that are in it
  std::vector<int> missing;      // ranks that have a process here and are not in it
  std::vector<int> absent;       // ranks that have no process here, though all of the job's should
  std::vector<int> not_dumped;   // ranks that may have a process which is not among the dumps
};

// What dumps are of: all processes of one host, where ranks of other hosts are not looked for; all
// processes of several hosts; or chosen processes, where others may be missing.
enum class DumpScope : uint8_t { kHost, kSeveralHosts, kChosen };

// Returns an entry for each job most of whose ranks are in one call, while others are not in it.
std::vector<MissingRanks> FindMissingRanks(const std::vector<RankDump>& dumps,
                                           const std::vector<DumpGroup>& groups,
                                           DumpScope scope = DumpScope::kHost);

// A process group not all of whose members have begun equally many collectives: the ones with
// fewest are waited for, also where Python's stacks do not show the call.
struct UnevenGroup {
  std::string job;
  ProcessGroup group;
  // Ranks by how many they have begun, ascending.
  std::vector<std::pair<uint64_t, std::vector<int>>> ranks;
  std::vector<int> unseen;  // members of which no counter is here; not told of one host
};
std::vector<UnevenGroup> FindUnevenGroups(const std::vector<RankDump>& dumps,
                                          DumpScope scope = DumpScope::kHost);

// "0-2, 4, 7"
std::string RankRanges(const std::vector<int>& ranks);

}  // namespace proftrace
