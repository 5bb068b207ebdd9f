// A small process beside the tracer that takes patches away at once when the tracer is killed. The
// guardian waits for the tracer's end, however that comes, and then runs `clean` of the same
// program for the processes that are being patched at that moment. It has a session of its own and
// blocks all signals, so that whatever ends the tracer's process group does not end the guardian.
// If both are killed, the ring's deadline keeps the job from recording for nobody.
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
  // Starts the guardian. If that is not possible, returns an object that guards nothing. The
  // program must understand "clean --wait -p PID [-p PID...]".
  static std::unique_ptr<PatchGuardian> Start();
  // Ends the guardian and waits for its end. If a process is still watched, leaves the guardian
  // running: it cleans that process when the tracer has ended.
  ~PatchGuardian();
  PatchGuardian(const PatchGuardian&) = delete;
  PatchGuardian& operator=(const PatchGuardian&) = delete;

  // Watch() must be called before PatchedProcess::Attach(), Forget() after Detach() has taken
  // everything out. Both may be called from any thread.
  void Watch(Pid pid) { Tell(pid, true); }
  void Forget(Pid pid) { Tell(pid, false); }

 private:
  PatchGuardian() = default;
  void Tell(Pid pid, bool is_watched);

  UniqueFd socket_;  // invalid: there is no guardian
  pid_t pid_ = -1;
  std::mutex mutex_;
  std::set<Pid> watched_;
};

}  // namespace proftrace
