// The GPU agents (userspace/agent/) of the recorded processes: puts one into each process that uses
// a GPU, also into those that begin to while they are recorded, finds those that jobs bring
// themselves (CUDA_INJECTION64_PATH), takes their records into the capture, and stops them.
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

#include "userspace/capture/agent_ring.h"
#include "userspace/capture/capture_sink.h"
#include "userspace/capture/gpu_process.h"
#include "userspace/model/ids.h"
#include "userspace/model/recording.h"

namespace proftrace {

struct AgentOptions {
  // The agent's file, which CUDA_INJECTION64_PATH names to jobs that proftrace starts; empty: there
  // is no such file, and they get the agent as running ones do.
  std::string file;
  bool is_asked = false;  // --gpu agent: why it is not there is said in any case
};

// Until the window begins a thread of its own empties their rings, and keeps of that what what
// comes later needs: names, devices, contexts.
//
// One thread calls all of it, but for Consider().
class GpuAgents {
 public:
  // `sink` outlives it.
  GpuAgents(AgentOptions options, CaptureSink* sink);
  ~GpuAgents();
  GpuAgents(const GpuAgents&) = delete;
  GpuAgents& operator=(const GpuAgents&) = delete;

  // Begins to put the agent into those of the running processes that use a GPU: those that were
  // asked for, and `children` of theirs.
  void Start(const std::vector<Pid>& pids, const std::vector<Pid>& children);
  // Whether a process's agent records; waits for it. False: it does not; in an idle job it may
  // begin to, as soon as one of its threads comes by a safe point.
  bool IsRunning(Pid pid);
  // Takes note of a process. To be called when it is recorded, and when it has loaded libraries
  // since: as soon as it has the CUDA driver it gets an agent, unless it brings one itself or was
  // forked by a process that had the driver. `parent`: who forked it; 0 = not known. On any thread;
  // waits for nothing.
  void Consider(Pid pid, Pid parent = Pid{});
  // The process has ended, or runs another program: its agent is gone, its last records are taken.
  enum class End : uint8_t { kExit, kExec };
  void OnEnd(Pid pid, End end);
  // Begins the window: what agents have recorded and lost until now is not part of it.
  void BeginWindow();
  // Takes what is there; keeps the agents going. Until it is called first, which a busy machine may
  // do late, they are kept going by themselves.
  void Drain();
  // Has all stop and takes their last records; bounded. Writes what they say of themselves.
  void Stop();

  // Whether one has recorded anything.
  bool has_run() const { return has_run_; }
  // Whether a process that used a GPU had none, or one that did not record. After Stop().
  bool has_missed() const;
  // Returns what is missing of the GPU's activity, and in which processes; to be called after
  // Stop(). Where an agent was asked for, a process that does not use a GPU is listed with that
  // reason.
  std::vector<Unsupported> gaps() const;

 private:
  struct Agent {
    Pid pid{};
    bool is_late = false;     // its process began to use CUDA, or came, while others were recorded
    bool is_brought = false;  // by the process itself
    int64_t seen_ns = 0;      // when the driver was seen
    int64_t running_ns = 0;   // when it was seen to record; 0 = not yet
    std::unique_ptr<AgentRing> ring;  // none yet: it is not in the process
    std::shared_ptr<ThreadNumbers> threads;
    AgentReport before;           // when the window began
    uint64_t dropped_before = 0;  // records of CUPTI's that were not kept, as it had not begun
    std::vector<std::byte> kept;  // of then, for the capture
    // ptrace belongs to one thread.
    std::thread injector;
    std::atomic<bool> is_injected = false;  // `injection` is final
    absl::Status injection;
    bool has_reason = false;  // why it does not record, or not all, was said
    bool has_recorded = false;
    bool is_past = false;  // it has handed over its last records, or its process is gone
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
  // Waits until the agent records, or says that it cannot.
  absl::Status WaitUntilRunning(Agent* agent);
  void Take(Agent* agent);
  // Takes records before the window; with `mutex_` held.
  void TakeBefore(Agent* agent);
  // Writes the records that were kept from before the window to the capture.
  void HandOn(Agent* agent);
  void KeepGoing(const std::stop_token& stop);
  // Is done with an agent: hands its last records on, and takes what it says of itself.
  void Finish(Agent* agent);
  void AddReason(Agent* agent, const std::string& what);

  AgentOptions options_;
  CaptureSink* sink_;
  std::atomic<bool> is_over_ = false;
  std::jthread keeper_;      // empties the rings until the window begins, beats until Drain()
  std::mutex mutex_;         // of these five, and of rings while `keeper_` runs
  bool has_window_ = false;  // begun
  std::vector<std::unique_ptr<Agent>> agents_;
  std::map<uint32_t, uint64_t> drivers_;  // by pid: where it was seen first
  std::set<uint32_t> had_none_;           // pids of processes that were seen without a driver
  std::set<uint32_t> forked_;             // pids of those that share their parent's
  std::set<uint32_t> asked_;              // pids that an agent was asked for
  std::vector<std::string> reasons_;
  std::map<uint32_t, uint32_t> described_;  // by pid: agents whose last words are written
  int64_t arrival_until_ns_ = 0;
  bool has_run_ = false;
  uint64_t unknown_threads_ = 0;  // records
  uint64_t late_ = 0;  // agents that came while their processes were recorded, and recorded
  int64_t longest_late_ns_ = 0;
};

}  // namespace proftrace
