// Finds what a rank did while the others waited for it: which function or call its late thread was
// in or waited for, and what its other threads and workers were busy with.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace proftrace {

// What kind of activity of a thread a row shows.
enum class LateKind : uint8_t {
  kOperator,    // an operator, an annotation, a call of CUDA
  kPython,      // a function of Python's
  kSystemCall,  // a system call
  kOffCpu,      // a time off the CPU, whose name is the reason
};
inline constexpr size_t kLateKinds = 4;

// The innermost row that covers most of a window.
struct LateRow {
  std::string name;         // JSON source; empty where no row was seen
  int64_t covered_ns = 0;   // how much of the window the row covers
  int64_t duration_ns = 0;  // of the row
  int64_t pid = 0;
  int64_t tid = 0;
};

// A stretch of time in which a process was late.
struct LateWindow {
  uint32_t process = 0;
  int64_t from_ns = 0;
  int64_t until_ns = 0;
  LateRow innermost;  // the innermost row of the main thread, of any kind but kOffCpu
  std::array<LateRow, kLateKinds> by_kind;  // rows of the main thread; for kOffCpu see off_cpu_ns
  LateRow elsewhere;  // the innermost row of the rank's other threads and processes that were busy
  // How long the main thread was off the CPU, by reason. There are few reasons, because the kernel
  // has a short list of them.
  std::map<std::string, int64_t, std::less<>> off_cpu_ns;

  // Returns the reason with the most time; empty where the thread was not off the CPU, or that was
  // not recorded.
  std::string_view LongestReason() const;
};

// A row of a process that may lie in one of its windows.
struct SeenRow {
  LateKind kind = LateKind::kOperator;
  bool is_main = false;  // of the process's main thread
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int64_t pid = 0;
  int64_t tid = 0;
  std::string_view name;
};

// Call Add() for all windows, Sort() once, then See() for each row of a process, in any order. The
// memory grows with the windows, not with the rows.
class LateRows {
 public:
  // Adds a window, and returns its number.
  uint32_t Add(uint32_t process, int64_t from_ns, int64_t until_ns);
  void Sort();
  void See(uint32_t process, const SeenRow& row);

  const LateWindow& window(uint32_t number) const { return windows_[number]; }
  bool HasWindows(uint32_t process) const {
    return process < by_process_.size() && !by_process_[process].empty();
  }

 private:
  struct Place {
    int64_t from_ns = 0;
    int64_t longest_until_ns = 0;  // the latest end of this window and of all before it
    uint32_t window = 0;
  };

  std::vector<LateWindow> windows_;
  std::vector<std::vector<Place>> by_process_;  // by time
};

}  // namespace proftrace
