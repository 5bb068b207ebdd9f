// What a rank did while the others waited for it: the innermost row that covers most of the time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace proftrace {

// A stretch of time in which a process was late.
struct LateWindow {
  uint32_t process = 0;
  int64_t from_ns = 0;
  int64_t until_ns = 0;
  std::string row;          // its name, JSON source; empty: none was seen
  int64_t covered_ns = 0;   // of the window, by that row
  int64_t duration_ns = 0;  // of the row
};

// Add() all windows, Sort() once, then See() each row of a process's main thread, in any order; the
// memory is that of the windows.
class LateRows {
 public:
  // Returns the window's number.
  uint32_t Add(uint32_t process, int64_t from_ns, int64_t until_ns);
  void Sort();
  void See(uint32_t process, int64_t begin_ns, int64_t end_ns, std::string_view name);

  const LateWindow& window(uint32_t number) const { return windows_[number]; }
  bool HasWindows(uint32_t process) const {
    return process < by_process_.size() && !by_process_[process].empty();
  }

 private:
  struct Place {
    int64_t from_ns = 0;
    int64_t longest_until_ns = 0;  // of this one and those before it
    uint32_t window = 0;
  };

  std::vector<LateWindow> windows_;
  std::vector<std::vector<Place>> by_process_;  // by time
};

}  // namespace proftrace
