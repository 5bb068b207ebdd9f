// The GPU agents (userspace/agent/) of the recorded processes: puts one into a process that runs,
// finds those that jobs bring themselves (CUDA_INJECTION64_PATH), takes their records into the
// capture, and stops them.
#pragma once

#include <absl/status/status.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "userspace/capture/agent_ring.h"
#include "userspace/capture/capture_sink.h"
#include "userspace/model/ids.h"

namespace proftrace {

struct AgentOptions {
  std::string library;    // path of the agent
  bool is_asked = false;  // --gpu agent: why it is not there is said in any case
};

class GpuAgents {
 public:
  // `sink` outlives it.
  GpuAgents(AgentOptions options, CaptureSink* sink);
  ~GpuAgents();
  GpuAgents(const GpuAgents&) = delete;
  GpuAgents& operator=(const GpuAgents&) = delete;

  // Begins to put the agent into those of the running processes that use a GPU.
  void Start(const std::vector<Pid>& pids);
  // Whether a process's agent records; waits for it. False: it does not; in an idle job it may
  // begin to, as soon as one of its threads comes by a safe point.
  bool IsRunning(Pid pid);
  // Takes up the agents that processes have brought themselves.
  void LookAt(const std::vector<Pid>& pids);
  // Takes what is there; keeps the agents going.
  void Drain();
  // Has all stop and takes their last records; bounded. Writes what they say of themselves.
  void Stop();

  // Whether one has recorded anything.
  bool has_run() const { return has_run_; }
  // Why processes are recorded without; that one does not use a GPU is a reason where an agent was
  // asked for.
  const std::vector<std::string>& reasons() const { return reasons_; }

 private:
  struct Agent {
    Pid pid{};
    std::unique_ptr<AgentRing> ring;  // none yet: it is not in the process
    // ptrace belongs to one thread.
    std::thread injector;
    std::atomic<bool> is_injected = false;  // `injection` is final
    absl::Status injection;
  };

  Agent* Find(Pid pid);
  void Inject(Agent* agent) const;
  absl::Status InjectNow(Pid pid) const;
  // Opens the ring once the agent is in the process.
  void TakeUp(Agent* agent);
  // Until it records, or says that it cannot.
  absl::Status WaitUntilRunning(Agent* agent);
  void Take(Agent* agent);
  void AddReason(const Agent& agent, const absl::Status& status);

  AgentOptions options_;
  CaptureSink* sink_;
  std::atomic<bool> is_over_ = false;
  std::vector<std::unique_ptr<Agent>> agents_;
  std::vector<std::string> reasons_;
  int64_t arrival_until_ns_ = 0;
  bool has_run_ = false;
};

// Whether it has loaded the CUDA driver.
bool HasCudaDriver(Pid pid);

// The agent that belongs to this program: beside it; empty = this build has none.
std::string FindAgentLibrary();

}  // namespace proftrace
