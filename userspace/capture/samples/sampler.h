// Takes samples of the recorded processes' threads at regular moments (--sample), and of threads
// that wake others (--waker-stacks), on a thread of its own. The kernel samples the threads that
// run. The other threads are read here, and a sample is kept only if its thread has not run
// meanwhile. No thread is ever stopped.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "userspace/capture/kernel/sample_programs.h"
#include "userspace/capture/samples/sample_writer.h"
#include "userspace/model/ids.h"

namespace proftrace {

class Sampler {
 public:
  // `period_ns` is the time between two samples of a thread. 0: only wakers are sampled.
  Sampler(std::unique_ptr<SamplePrograms> programs, int64_t period_ns);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // Samples a process from here on. May be called on any thread, and again when the process runs
  // another program.
  absl::Status AddProcess(Pid pid, const SampledProcess& process);
  void RemoveProcess(Pid pid);

  // Takes samples from here on. Those before BeginWindow() are not kept; they make the tables ready
  // by which stacks are walked, so that this takes no CPU time from the job in the window.
  absl::Status Start();
  void BeginWindow(int64_t start_ns);
  // Takes no more samples. TakeRecords() still gives the samples that were taken.
  void Stop();

  // Calls `append` for each record that is ready (SampleWriter::TakeRecords()).
  void TakeRecords(const std::function<void(std::span<const std::byte>)>& append) {
    writer_.TakeRecords(append);
  }

  // Waits until all samples have names, or `longest_ns` are over (SampleWriter::Settle()).
  uint64_t Settle(int64_t longest_ns) { return writer_.Settle(longest_ns); }

  // Return how many looks in the window had no room, and how many were at threads that ran while
  // they were read. May be called on any thread.
  uint64_t lost() const { return programs_->lost() - before_.lost + writer_.lost(); }
  uint64_t unsteady() const { return unsteady_ - before_.unsteady; }
  // Returns the result of SampleWriter::failure().
  std::string failure() const { return writer_.failure(); }

 private:
  using ThreadKey = std::pair<uint32_t, uint32_t>;  // pid, tid

  // A thread that does not run. One reading stands for all looks at it until it runs again.
  struct Rest {
    uint64_t switches = 0;
    int64_t begin_ns = 0;
    uint32_t count = 0;  // looks since begin_ns that were not written yet
    uint32_t last_look = 0;
    uint64_t reading = 0;
    int32_t call = -1;
    uint8_t state = 0;
  };
  // The reading of a thread at rest, which is kept until it is known that the thread did not run
  // meanwhile.
  struct Reading {
    abi::pt_thread_state thread;
    SampleReading read;
  };
  // Addresses of PyThreadStates by pthread_self().
  struct PythonStates {
    absl::flat_hash_map<uint64_t, uint64_t> by_thread;
    int64_t next_search_ns = 0;
  };
  // Looks before the window.
  struct Missed {
    std::atomic<uint64_t> lost = 0;
    std::atomic<uint64_t> unsteady = 0;
  };
  struct News {
    Pid pid;
    std::optional<SampledProcess> process;  // nullopt: the process is not sampled any more
  };

  void Run();
  void LookUntilStopped();
  void DrainUntilStopped();
  void TakeNews();
  // Looks at the threads, as they were just listed. `elapsed` is the number of periods since the
  // last look.
  void Look(const std::vector<abi::pt_thread_state>& threads, uint32_t elapsed);
  void OnRunning(const abi::pt_raw_sample& raw);
  Reading Read(const abi::pt_thread_state& thread);
  uint64_t PythonStateOf(Pid pid, uint64_t thread_id, const PythonLayout& layout);
  void Keep(Reading reading);
  void Write(const ThreadKey& key, Rest* rest, bool is_over);

  std::unique_ptr<SamplePrograms> programs_;
  int64_t period_ns_;
  std::atomic<bool> stop_ = false;
  std::atomic<uint64_t> unsteady_ = 0;
  Missed before_;
  std::thread thread_;

  std::mutex mutex_;
  std::vector<News> news_;

  SampleWriter writer_;

  // The next members are for the thread alone.
  absl::flat_hash_map<uint32_t, SampledProcess> processes_;  // by pid
  absl::flat_hash_map<uint32_t, PythonStates> states_;       // by pid
  absl::flat_hash_map<ThreadKey, Rest> resting_;
  uint32_t looks_ = 0;
  uint64_t next_reading_ = 1;
};

}  // namespace proftrace
