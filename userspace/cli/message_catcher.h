// Takes what this process, and those that it starts, write to standard error while a screen is on
// the terminal: the lines are given to somebody who can show them, and are on standard error again
// at the end. Where standard error is no terminal they go there at once as well.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "userspace/base/unique_fd.h"

namespace proftrace {

class MessageCatcher {
 public:
  MessageCatcher() = default;
  ~MessageCatcher() { Stop(); }
  MessageCatcher(const MessageCatcher&) = delete;
  MessageCatcher& operator=(const MessageCatcher&) = delete;

  // False: there is no pipe, and messages go where they went.
  bool Start();
  // Takes messages in no longer. What was caught last is written to where it would have gone.
  void Stop();

  // Readable where there are messages; -1: it was not started.
  int fd() const { return reads_.get(); }
  // Returns the lines that have come since, whole ones, without their ends. From one thread.
  std::vector<std::string> Take();

 private:
  UniqueFd reads_;
  UniqueFd before_;  // standard error, as it was
  bool is_terminal_ = false;
  std::string part_;              // of a line
  std::deque<std::string> last_;  // that are written at the end
};

}  // namespace proftrace
