// Stops a process's first thread for a moment, so that it runs nothing before its probes are in.
// Only for processes that proftrace itself started.
#pragma once

#include "userspace/model/ids.h"

namespace proftrace {

// By ptrace, and not by a stop signal: should proftrace end, however it comes, the kernel lets the
// thread go on. To be made and destroyed on one thread of ours, as ptrace demands.
class HeldThread {
 public:
  // Waits until the thread has stopped, half a second at most.
  explicit HeldThread(Pid pid);
  ~HeldThread();  // it goes on
  HeldThread(const HeldThread&) = delete;
  HeldThread& operator=(const HeldThread&) = delete;

  bool is_held() const { return is_held_; }

 private:
  bool WaitForStop();

  Pid pid_;
  bool is_seized_ = false;
  bool is_held_ = false;
  int signal_ = 0;  // that it was about to be given when it stopped: given when it goes on
};

}  // namespace proftrace
