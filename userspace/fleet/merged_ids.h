// Gives numbers to the processes, threads and arrows of a merged timeline. The numbers are unique
// in the whole file, small enough for readers that keep numbers as doubles, and the same for any
// order of the inputs.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "userspace/collectives/source_input.h"

namespace proftrace {

// A SourceId that outlives its event.
struct OwnedId {
  explicit OwnedId(const SourceId& id);

  int64_t number = 0;
  std::string text;  // JSON source; empty where the id is a number

  auto operator<=>(const OwnedId&) const = default;
};

class MergedIds {
 public:
  // PIDs of the merge's process N are numbered from (N + 1) * 1000 on; processes are in the order
  // of ranks.
  static constexpr int64_t kPidsOfProcess = 1000;

  explicit MergedIds(uint32_t processes);

  // Begins another input, which is of the process `process`. The following calls are about that
  // input.
  void BeginPart(uint32_t process);

  int64_t PidOf(const SourceId& pid);
  // Returns the thread's own number where it is free in its process and fits into 32 bits, else a
  // number beyond those that systems give. `merged_pid`: the result of PidOf().
  int64_t TidOf(int64_t merged_pid, const SourceId& tid);
  // Returns the number of an arrow or an asynchronous row. Equal ids of two categories get
  // different numbers.
  uint64_t IdOf(std::string_view category, const SourceId& id);
  // Returns the number of an arrow between ranks.
  static uint64_t IdOfLink(uint64_t link) { return link; }

 private:
  // The lower bits of a number are the id in its category, the upper ones the number of the
  // category of an input. Both together have 53 bits.
  static constexpr int kIdBits = 32;
  static constexpr int64_t kFirstMadeTid = int64_t{1} << 30;

  uint32_t processes_;
  uint32_t process_ = 0;
  std::map<uint32_t, int64_t> pids_of_process_;  // how many PIDs of each process have been given
  int64_t pids_beyond_ = 0;                      // PIDs given beyond a process's kPidsOfProcess
  std::map<OwnedId, int64_t> pids_;              // of the current input
  std::map<int64_t, std::map<OwnedId, int64_t>> tids_;
  std::map<int64_t, std::set<int64_t>> given_tids_;
  std::map<std::string, uint64_t, std::less<>> slots_;  // by category of the current input
  std::map<std::pair<uint64_t, OwnedId>, uint64_t> long_ids_;
  uint64_t next_slot_ = 1;  // 0 is for links
  uint64_t next_long_id_ = 0;
  uint64_t long_slot_ = 0;
};

}  // namespace proftrace
