// A program that is started, whose output is read, and which is waited for.
#pragma once

#include <absl/status/status.h>

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace proftrace {

struct ChildEnd {
  int exit_code = 0;   // 128 + the signal's number for one that a signal has ended
  std::string errors;  // what it wrote on its standard error output: the first 64 KiB
  bool was_stopped = false;
};

// Runs arguments[0] and gives each line that it writes to `on_line`, whose error ends the program
// and is returned. `stop` ends it, too. Its standard input is empty.
absl::Status RunChild(const std::vector<std::string>& arguments, const std::atomic<bool>* stop,
                      const std::function<absl::Status(std::string_view line)>& on_line,
                      ChildEnd* end);

// Runs arguments[0] at the terminal that we have.
absl::Status RunAtTerminal(const std::vector<std::string>& arguments, ChildEnd* end);

}  // namespace proftrace
