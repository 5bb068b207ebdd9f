// A small process beside the tracer that takes patches away at once when the tracer is killed: it
// waits for the tracer's end, however it comes, and runs `clean` of the same program then for the
// processes that are being patched at that moment. It has a session of its own and blocks all
// signals: what ends the tracer's group does not end it. Where both are killed, the ring's deadline
// keeps the job from recording for nobody.
#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <set>

#include "userspace/base/unique_fd.h"
#include "userspace/model/ids.h"

namespace proftrace {

class PatchGuardian {
 public:
  // Starts the process; where that is not possible, nobody guards. The program must understand
  // "clean --wait -p PID [-p PID...]".
  static std::unique_ptr<PatchGuardian> Start();
  // Ends the process and waits for it; where something is still watched it goes on until the tracer
  // has ended, and cleans then.
  ~PatchGuardian();
  PatchGuardian(const PatchGuardian&) = delete;
  PatchGuardian& operator=(const PatchGuardian&) = delete;

  // Watch() is to be called before PatchedProcess::Attach(), Forget() when Detach() has taken
  // everything out. From any thread.
  void Watch(Pid pid) { Tell(pid, true); }
  void Forget(Pid pid) { Tell(pid, false); }

 private:
  PatchGuardian() = default;
  void Tell(Pid pid, bool is_watched);

  UniqueFd socket_;  // none: no such process
  pid_t pid_ = -1;
  std::mutex mutex_;
  std::set<Pid> watched_;
};

}  // namespace proftrace
