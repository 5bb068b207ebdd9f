// Collects the names of a part's processes and threads from its metadata events. They are written
// when it is known which processes and threads have rows.
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
    std::string name;  // plain text; empty where no event tells it
    std::optional<int64_t> sort_index;
    bool has_rows = false;
  };
  struct Process {
    std::string name;
    std::string labels;
    std::optional<int64_t> sort_index;
    bool has_rows = false;
    std::string original;  // the number or text that the input has for the process
    std::map<int64_t, Thread> threads;
  };

  // Takes one of Chrome's five metadata events about names and order. Returns false for any other
  // event.
  bool Take(const SourceEvent& event, int64_t pid, int64_t tid);
  // Notes that the thread has a row.
  void AddRow(int64_t pid, int64_t tid);
  // Notes the number or text that the part has for a process.
  void SetOriginal(int64_t pid, const SourceId& original);

  const std::map<int64_t, Process>& processes() const { return processes_; }
  void Clear() { processes_.clear(); }

 private:
  std::map<int64_t, Process> processes_;
};

// Returns the sort index of a process among those of its rank: the CPU, then GPUs, then the rest.
int64_t PlaceInRank(const MergedNames::Process& process);

// Returns the plain text of a JSON string's source without its quotes.
std::string PlainText(std::string_view source);

}  // namespace proftrace
