// Groups the dumps of many processes: processes whose main threads have the same stack are one
// group, and the smallest groups come first. In a distributed job that hangs, the odd ones are the
// ranks that the others wait for.
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

// The dump of a process, and what is known about its place in a job.
struct RankDump {
  ProcessDump dump;
  uint32_t host = 0;  // index into JobDumps::hosts; a PID is unique on one host only
  Pid parent{};
  std::optional<int> rank;
  std::optional<int> world_size;
  std::optional<int> local_world_size;
  std::string job;  // equal texts mean the same job; empty where the process is of no job
  std::vector<BegunCollectives> begun;
};

// Tells jobs with the same name apart, as of containers that use the same port: where a rank is
// there twice, the parent process is added to the job's name.
void TellJobsApart(std::vector<RankDump>* dumps);

// A collective of torch.distributed that a thread is in.
struct EnteredCollective {
  std::string name;  // the function that the job called: "all_reduce"
  std::string file;  // the file of the call; empty where it could not be read
  std::optional<int32_t> line;

  bool operator==(const EnteredCollective&) const = default;
};

// Returns for each dump whether its process is a rank itself. Workers of a DataLoader are not,
// because they inherit their parent's rank, and launchers have no rank. Where no process has a
// rank, each process counts as one.
std::vector<bool> AreRanks(const std::vector<RankDump>& dumps);

// Finds the call of torch.distributed in a stack (innermost frame first). Returns nullopt where the
// stack has none.
std::optional<EnteredCollective> CollectiveOfStack(const DumpedStack& stack);

struct DumpGroup {
  std::string job;
  std::vector<size_t> members;  // indices into the dumps, by rank, then by PID
  bool is_of_ranks = false;     // false for helpers: workers of a DataLoader, a launcher
  std::optional<EnteredCollective> collective;
};

// Returns the ranks of a group's members, in the order of the members.
std::vector<int> RanksIn(const std::vector<RankDump>& dumps, const DumpGroup& group);

// Returns the main thread's stack, else that of the first thread that runs Python; null where none
// does.
const DumpedStack* MainStack(const ProcessDump& dump);
const DumpedThread* MainThread(const ProcessDump& dump);

// Groups the dumps. Groups of ranks come before helpers. Within a job, smaller groups come before
// larger ones, and among equally large groups those outside of any call of torch.distributed come
// first.
std::vector<DumpGroup> FoldDumps(const std::vector<RankDump>& dumps);

// The ranks that a job waits for, concluded from the call in which most of its ranks are.
struct MissingRanks {
  std::string job;
  EnteredCollective collective;  // the call that most ranks are in
  std::vector<int> waiting;      // ranks that are in that call
  std::vector<int> missing;      // ranks that have a process here, and are not in that call
  // Ranks without a process here, where all ranks of the job should have one.
  std::vector<int> absent;
  std::vector<int> not_dumped;  // ranks that may have a process that is not among the dumps
};

// The processes that the dumps are of: all processes of one host (ranks of other hosts are not
// missed), all processes of several hosts, or chosen processes (others may be missing).
enum class DumpScope : uint8_t { kHost, kSeveralHosts, kChosen };

// Returns an entry for each job in which most ranks are in the same call and other ranks are not.
std::vector<MissingRanks> FindMissingRanks(const std::vector<RankDump>& dumps,
                                           const std::vector<DumpGroup>& groups,
                                           DumpScope scope = DumpScope::kHost);

// A process group whose members have begun unequal numbers of collectives. The others wait for the
// members with the fewest, even where Python's stacks do not show the call.
struct UnevenGroup {
  std::string job;
  ProcessGroup group;
  // Ranks by the number of collectives that they have begun, ascending.
  std::vector<std::pair<uint64_t, std::vector<int>>> ranks;
  std::vector<int> unseen;  // members without a counter here; left empty for dumps of one host
};
std::vector<UnevenGroup> FindUnevenGroups(const std::vector<RankDump>& dumps,
                                          DumpScope scope = DumpScope::kHost);

// Returns ranks as text: "0-2, 4, 7".
std::string RankRanges(const std::vector<int>& ranks);

}  // namespace proftrace
