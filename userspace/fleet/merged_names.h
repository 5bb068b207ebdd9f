// The names of a part's processes and threads, as its metadata events tell them, to be written when
// it is known which of them have rows.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "userspace/collectives/source_input.h"

namespace proftrace {

class MergedNames {
 public:
  struct Thread {
    std::string name;  // plain text; empty: not told
    std::optional<int64_t> sort_index;
    bool has_rows = false;
  };
  struct Process {
    std::string name;
    std::string labels;
    std::optional<int64_t> sort_index;
    bool has_rows = false;
    std::string original;  // its own number or text
    std::map<int64_t, Thread> threads;
  };

  // Takes one of Chrome's five metadata events about names and order. False: it is another.
  bool Take(const SourceEvent& event, int64_t pid, int64_t tid);
  // Tells that there is a row.
  void AddRow(int64_t pid, int64_t tid);
  // Tells what the part calls a process.
  void SetOriginal(int64_t pid, const SourceId& original);

  const std::map<int64_t, Process>& processes() const { return processes_; }
  void Clear() { processes_.clear(); }

 private:
  std::map<int64_t, Process> processes_;
};

// Returns where a process stands among those of its rank: the CPU, then GPUs, then the rest.
int64_t PlaceInRank(const MergedNames::Process& process);

// The plain text of JSON source without its quotes.
std::string PlainText(std::string_view source);

}  // namespace proftrace
