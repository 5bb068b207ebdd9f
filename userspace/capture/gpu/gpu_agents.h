// Manages the GPU agents (userspace/agent/) of the recorded processes: puts an agent into each
// process that uses a GPU, also where the process begins to while it is recorded, finds the agents
// that jobs bring themselves (CUDA_INJECTION64_PATH), takes the agents' records into the capture,
// and stops the agents.
#pragma once

#include <absl/status/status.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "userspace/capture/gpu/agent_ring.h"
#include "userspace/capture/gpu/gpu_process.h"
#include "userspace/capture/records/capture_sink.h"
#include "userspace/model/ids.h"
#include "userspace/model/recording.h"

namespace proftrace {

struct AgentOptions {
  // The agent's file, which CUDA_INJECTION64_PATH names to jobs that proftrace starts; empty: there
  // is no such file, and these jobs get the agent as running ones do.
  std::string file;
  // --gpu agent was given: a process without an agent is a gap also where it does not use a GPU
  bool is_asked = false;
};

// Until the window begins, a thread of this class empties the agents' rings. It keeps only the
// records that are needed to understand later ones: names, devices, contexts, and readings of
// CUPTI's clock.
//
// One thread makes all calls, except of Consider().
class GpuAgents {
 public:
  // `sink` must outlive it.
  GpuAgents(AgentOptions options, CaptureSink* sink);
  ~GpuAgents();
  GpuAgents(const GpuAgents&) = delete;
  GpuAgents& operator=(const GpuAgents&) = delete;

  // Begins to put the agent into the running processes that use a GPU: `pids`, for which the user
  // asked, and their `children`.
  void Start(const std::vector<Pid>& pids, const std::vector<Pid>& children);
  // Waits for a process's agent. Returns whether the agent records. In an idle job it may begin to
  // record later, as soon as one of the job's threads reaches a safe point.
  bool IsRunning(Pid pid);
  // Takes note of a process. To be called when the process is recorded, and when it has loaded
  // libraries. As soon as it has the CUDA driver it gets an agent, unless it brings an agent itself
  // or was forked by a process that had the driver. `parent` is the process that forked it; 0: not
  // known. May be called on any thread, and waits for nothing.
  void Consider(Pid pid, Pid parent = Pid{});
  // OnEnd() takes the last records of a process that has ended (kExit) or runs another program
  // (kExec), and forgets its agent.
  enum class End : uint8_t { kExit, kExec };
  void OnEnd(Pid pid, End end);
  // Begins the window. Records that the agents have made or lost until now are not part of it.
  void BeginWindow();
  // Takes the records that are there, and tells the agents that the loader is alive. Until the
  // first call, which may be late on a busy machine, the thread of this class tells them.
  void Drain();
  // Stops all agents and takes their last records, in a bounded time. Writes the agents' reports to
  // the capture.
  void Stop();

  // Whether any agent has recorded anything.
  bool has_run() const { return has_run_; }
  // Whether a process that used a GPU had no agent, or an agent that did not record. To be called
  // after Stop().
  bool has_missed() const;
  // Returns which GPU activity is missing, of which processes, and why. To be called after Stop().
  // Where an agent was asked for, a process that does not use a GPU is listed with that reason.
  std::vector<Unsupported> gaps() const;

 private:
  struct Agent {
    Pid pid{};
    // Whether the driver was seen in the process only after Start().
    bool is_late = false;
    bool is_brought = false;          // the process itself loads the agent
    int64_t seen_ns = 0;              // when the driver was first seen in the process
    int64_t running_ns = 0;           // when the agent was first seen to record; 0: not yet
    std::unique_ptr<AgentRing> ring;  // null: the agent is not in the process yet
    std::shared_ptr<ThreadNumbers> threads;
    AgentReport before;           // its report when the window began
    uint64_t dropped_before = 0;  // CUPTI's records from before the window, which were not kept
    std::vector<std::byte> kept;  // records from before the window, for the capture
    // Each injection has a thread, because ptrace belongs to one thread.
    std::thread injector;
    std::atomic<bool> is_injected = false;  // `injection` is final
    absl::Status injection;
    bool has_reason = false;  // reasons_ says why the agent does not record, or not everything
    bool has_recorded = false;
    bool is_past = false;  // the agent has handed over its last records, or its process is gone
  };

  // Returns the agents that are not past.
  std::vector<Agent*> Living();
  Agent* Find(Pid pid);
  bool IsFork(Pid pid, Pid parent, uint64_t driver);
  void Inject(Agent* agent) const;
  absl::Status InjectNow(Pid pid) const;
  absl::StatusOr<std::unique_ptr<AgentRing>> OpenRing(Agent* agent) const;
  // Opens the ring once the agent is in the process.
  void TakeUp(Agent* agent);
  // Opens the ring of an agent that the process brings, once its memory is there.
  void LookForBrought(Agent* agent);
  // Waits until the agent records. Fails where the agent says that it cannot, or does not begin in
  // time.
  absl::Status WaitUntilRunning(Agent* agent);
  void Take(Agent* agent);
  // Takes records from before the window. The caller holds `mutex_`.
  void TakeBefore(Agent* agent);
  // Writes the records that were kept from before the window to the capture.
  void HandOn(Agent* agent);
  void KeepGoing(const std::stop_token& stop);
  // Closes an agent's ring: hands its last records on, and writes its report to the capture.
  void Finish(Agent* agent);
  void AddReason(Agent* agent, const std::string& what);

  AgentOptions options_;
  CaptureSink* sink_;
  std::atomic<bool> is_over_ = false;
  std::jthread keeper_;      // empties rings before the window, sends heartbeats until Drain()
  std::mutex mutex_;         // guards the next five members, and the rings while `keeper_` runs
  bool has_window_ = false;  // whether the window has begun
  std::vector<std::unique_ptr<Agent>> agents_;
  std::map<uint32_t, uint64_t> drivers_;  // the address at which the driver was first seen, by pid
  std::set<uint32_t> had_none_;           // pids of processes that were seen without a driver
  std::set<uint32_t> forked_;             // pids of processes that share their parent's driver
  std::set<uint32_t> asked_;              // pids that an agent was asked for
  std::vector<std::string> reasons_;
  std::map<uint32_t, uint32_t> described_;  // how many agents' reports are written, by pid
  int64_t arrival_until_ns_ = 0;
  bool has_run_ = false;
  uint64_t unknown_threads_ = 0;  // records whose thread is not known
  uint64_t late_ = 0;             // late agents (Agent::is_late) that recorded
  int64_t longest_late_ns_ = 0;
};

}  // namespace proftrace
