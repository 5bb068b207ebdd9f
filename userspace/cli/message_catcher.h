// Catches everything that this process and its children write to standard error while a screen is
// on the terminal. Take() gives the lines to a caller that can show them, and the last ones are
// written to standard error again at the end. Where standard error is not a terminal, lines are
// written there at once as well.
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

  // Begins to catch messages. Returns false where there can be no pipe; messages then go where they
  // went before.
  bool Start();
  // Ends the catching. The last caught lines are written to the original standard error.
  void Stop();

  // Returns a descriptor that is readable when there are messages; -1 where the catcher was not
  // started.
  int fd() const { return reads_.get(); }
  // Returns the whole lines that have come since the last call, without line ends. To be called
  // from one thread.
  std::vector<std::string> Take();

 private:
  UniqueFd reads_;
  UniqueFd before_;  // the original standard error
  bool is_terminal_ = false;
  std::string part_;              // the begin of an incomplete line
  std::deque<std::string> last_;  // the lines that are written at the end
};

}  // namespace proftrace
