// Starts a program, reads its output, and waits for its end.
#pragma once

#include <absl/status/status.h>

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace proftrace {

struct ChildEnd {
  int exit_code = 0;   // 128 + the signal's number where a signal has ended the program
  std::string errors;  // the first 64 KiB of its standard error output
  bool was_stopped = false;
};

// Runs arguments[0], and passes each line that it writes to `on_line`. An error of `on_line` ends
// the program, and is returned. `stop` ends the program as well. Its standard input is empty.
absl::Status RunChild(const std::vector<std::string>& arguments, const std::atomic<bool>* stop,
                      const std::function<absl::Status(std::string_view line)>& on_line,
                      ChildEnd* end);

// Runs arguments[0] on this process's terminal.
absl::Status RunAtTerminal(const std::vector<std::string>& arguments, ChildEnd* end);

}  // namespace proftrace
