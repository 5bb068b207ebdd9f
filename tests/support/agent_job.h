// A process with the stand-ins for CUDA and CUPTI and the GPU agent in it, for tests: a fork of the
// test that runs the functions it is given. The test is the loader.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bpf/abi/gpu_records.h"
#include "tests/support/cupti_double/cupti_double.h"
#include "userspace/capture/gpu/agent_ring.h"

namespace proftrace {

// The tools that a function in the job works with. Its calls of CUDA are those of the stand-ins.
struct JobTools {
  int (*start)() = nullptr;   // proftrace_agent_start
  int (*inject)() = nullptr;  // InitializeInjection
  const char* agent_path = nullptr;
  cupti_double* settings = nullptr;  // nullptr where the stand-in for CUPTI is not loaded
  void (*emit)(const void* record, size_t bytes) = nullptr;

  // A function of the stand-ins for the Runtime or the Driver.
  template <typename Function>
  Function Cuda(const char* name) const {
    return reinterpret_cast<Function>(Find(name));
  }
  static void* Find(const char* name);
};

struct JobOptions {
  std::map<std::string, std::string> environment;
  bool has_driver = true;
  std::string cupti = "double";  // a path; "" = none is loaded
};

// `count` kernels, by the Runtime; 0 where all went well.
int64_t LaunchKernels(JobTools& tools, int64_t count);
// CUPTI_DOUBLE.
JobOptions With(const std::string& settings);

class AgentJob {
 public:
  using Function = int64_t (*)(JobTools& tools, int64_t argument);

  explicit AgentJob(const JobOptions& options = {});
  ~AgentJob();
  AgentJob(const AgentJob&) = delete;
  AgentJob& operator=(const AgentJob&) = delete;

  // Runs it on the job's first thread and gives what it returns; fails the test when the job ends.
  int64_t Do(Function function, int64_t argument = 0);
  // Starts a function that need not come back.
  void Send(Function function, int64_t argument = 0);

  // Starts the agent, and takes hold of its memory.
  void Start();
  void TakeRing();
  // Waits until the agent is in this state, or over.
  void AwaitState(abi::pt_agent_state state);
  void StartAndRun();
  // Stops the agent and waits until it has; records are in `records`.
  void Stop();
  void Drain();

  // Records that the stand-in for CUPTI has put into buffers, without those of the agent's own
  // calls.
  uint64_t Emitted();
  // Given = written + dropped + unread, and what was written has arrived.
  void ExpectConserved();

  // The exit code of the job, which is ended by closing its socket or by itself.
  int AwaitExit();

  pid_t pid() const { return pid_; }
  AgentRing& ring() { return *ring_; }
  abi::pt_agent_page* page() { return page_; }
  void ForgetRing();

  // Returns the records of one kind, in their order.
  template <typename Record>
  std::vector<Record> Records(abi::pt_gpu_kind kind) const {
    std::vector<Record> found;
    for (const auto& bytes : records) {
      if (bytes[22] != kind) continue;
      Record record{};
      memcpy(&record, bytes.data(), std::min(bytes.size(), sizeof(record)));
      found.push_back(record);
    }
    return found;
  }
  // Returns the name of an id that was told; "?" for any other.
  std::string Name(uint64_t id) const;

  std::vector<std::vector<uint8_t>> records;

 private:
  [[noreturn]] void RunJob(const JobOptions& options);

  pid_t pid_ = -1;
  int socket_ = -1;
  std::unique_ptr<AgentRing> ring_;
  abi::pt_agent_page* page_ = nullptr;
};

}  // namespace proftrace
