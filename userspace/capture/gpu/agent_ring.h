// The loader's end of the GPU agent (userspace/agent/) in one process: takes the agent's records
// out of the memory that it shares, tells the agent to stop, and reads its report.
//
// The memory belongs to the job, so nothing in it is trusted: contents are copied before they are
// checked, positions are the loader's own, and a memory that could become smaller under a reader is
// not taken. Errors in its contents are counted.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "bpf/abi/gpu_records.h"
#include "userspace/base/unique_fd.h"
#include "userspace/model/ids.h"

namespace proftrace {

// An agent's report about itself. The job can write it, so it is no more trustworthy than the job.
struct AgentReport {
  abi::pt_agent_state state = abi::PT_AGENT_STARTING;
  abi::pt_agent_failure failure = abi::PT_AGENT_NO_FAILURE;
  uint32_t cupti_result = 0;
  uint32_t cupti_version = 0;
  uint32_t driver_version = 0;
  uint32_t runtime_version = 0;
  uint64_t cupti_records = 0;
  uint64_t ring_records = 0;
  uint64_t ring_dropped = 0;
  uint64_t unread_records = 0;
  uint64_t cupti_dropped = 0;
  uint64_t buffers_refused = 0;
  uint64_t incomplete_buffers = 0;
  uint64_t incomplete_bytes = 0;
  std::string message;  // printable
};

// Counts of the contents that the reader found in the ring.
struct AgentRingCounts {
  uint64_t records = 0;        // records that were handed on
  uint64_t foreign = 0;        // records of kinds that are not the agent's; they are left out
  uint64_t damages = 0;        // places where no record could be read
  uint64_t skipped_bytes = 0;  // bytes from such places to the newest record
};

class AgentRing {
 public:
  // Gets whole records of the kinds of bpf/abi/gpu_records.h, with the loader's pid and tid, in
  // memory that is aligned for them and valid during the call. Other fields are the job's.
  using OnRecord = std::function<void(std::span<const std::byte> record)>;
  // Returns the loader's number of a thread, from the thread's number in the job's PID namespace;
  // 0: not known.
  using ThreadNumber = std::function<uint32_t(uint32_t tid)>;

  // Opens the agent's ring of a process. Null where the process has no agent (yet); the memory of
  // its parent's agent, which a forked child may have open for a moment, does not count. Fails
  // where the memory cannot be reached or used.
  static absl::StatusOr<std::unique_ptr<AgentRing>> Open(Pid pid, ThreadNumber thread_number);
  // Opens the agent's ring in a memory that is already open. `pid` is put into the records as their
  // process.
  static absl::StatusOr<std::unique_ptr<AgentRing>> FromMemory(UniqueFd memory, Pid pid,
                                                               ThreadNumber thread_number);
  // Whether an agent in a process works for a loader that is alive, of whatever build of proftrace.
  // An agent of another version counts as such, because its page cannot be read. Sends the agent
  // nothing.
  static bool IsServed(Pid pid);
  // Tells the agent to stop. An agent that has failed stays until then, so that its report can be
  // read.
  ~AgentRing();
  AgentRing(const AgentRing&) = delete;
  AgentRing& operator=(const AgentRing&) = delete;

  // Tells the agent that the loader is alive: without this it stops after ten seconds. May be
  // called on any thread.
  void Beat();
  // Hands on the records that are there, once around the ring at most, and tells the agent that the
  // loader is alive. To be called ten times a second or more; works also after the job has ended.
  void Drain(const OnRecord& on_record);

  // Tells the agent to stop. Does not wait.
  void Stop();
  // Drains until the agent has stopped or failed and all records are taken. Returns false where the
  // job ended before, or `deadline_ns` (CLOCK_MONOTONIC) passed: then the agent is left alone.
  bool WaitUntilStopped(int64_t deadline_ns, const OnRecord& on_record);

  // Whether the agent has stopped or failed.
  bool is_over() const;
  // Whether the agent records.
  bool is_running() const;
  AgentReport report() const;
  const AgentRingCounts& counts() const { return counts_; }

 private:
  AgentRing(UniqueFd memory, Pid pid, ThreadNumber thread_number, void* address, size_t bytes);
  void Copy(uint64_t position, void* to, size_t bytes) const;
  void SkipTo(uint64_t written);

  UniqueFd memory_;
  Pid pid_;
  ThreadNumber thread_number_;
  abi::pt_agent_page* page_;  // shared with the job, so each field is read only once
  const std::byte* ring_;
  uint64_t ring_bytes_;
  size_t mapped_bytes_;
  uint64_t taken_ = 0;
  AgentRingCounts counts_;
};

}  // namespace proftrace
