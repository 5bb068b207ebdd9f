// Makes records of the sampler's readings, on a thread of its own: finding the names of a library's
// functions may take a second, and the next look at the threads must not wait for it.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "userspace/capture/names/sample_names.h"
#include "userspace/capture/samples/sample_worker.h"
#include "userspace/model/ids.h"

namespace proftrace {

// A sample of a thread: `count` looks at the thread that all found the same reading.
struct SampleOf {
  uint64_t reading = 0;
  bool is_last = false;  // the reading is not needed any more
  Pid pid{};
  Tid tid{};
  int64_t time_ns = 0;
  uint32_t count = 0;
  int32_t call = -1;
  uint8_t state = 0;  // enum pt_sample_state
  Tid woken{};        // for a sample of a waker: the thread that it woke; 0: for looks
};

// Returns the sample without the looks before `start_ns`; `count` may become 0. The sample of a
// waker before it becomes one of no look.
SampleOf WithoutLooksBefore(int64_t start_ns, SampleOf sample, int64_t period_ns);

class SampleWriter {
 public:
  // How many bytes of readings may wait to be named; no more are taken.
  static constexpr size_t kMostWaitingBytes = size_t{256} << 20;

  explicit SampleWriter(int64_t period_ns);
  ~SampleWriter();
  SampleWriter(const SampleWriter&) = delete;
  SampleWriter& operator=(const SampleWriter&) = delete;

  // The following functions may be called on any thread. Items are dealt with in the order in which
  // they were added, from the next Wake() on.
  void AddProcess(Pid pid, SampledProcess process);
  void RemoveProcess(Pid pid);
  // Adds a reading. Returns false where there is no room; samples that refer to it are then left
  // out, and counted.
  bool Add(SampleReading reading);
  // Adds a sample, without its looks before the window.
  void Add(const SampleOf& sample);
  // Begins the window. Until then readings are named, and no samples are kept.
  void BeginWindow(int64_t start_ns) { start_ns_ = start_ns; }
  void Wake() { changed_.notify_all(); }

  // Waits until all items are dealt with, or `longest_ns` are over. Returns how many looks still
  // wait then.
  uint64_t Settle(int64_t longest_ns);
  // Waits as Settle() does. The looks that still wait then are lost.
  void Finish(int64_t longest_ns);
  // Calls append(record) for each record that is ready, in their order. To be called by one thread.
  void TakeRecords(const std::function<void(std::span<const std::byte>)>& append);
  // Returns how many looks are not in the records.
  uint64_t lost() const { return lost_; }
  // Returns a sentence that says why no more names were found from some moment on; empty where that
  // did not happen.
  std::string failure() const;

 private:
  using Item = std::variant<SampleTask, SampleOf>;

  void Queue(Item item);
  uint64_t Settle(int64_t longest_ns, std::unique_lock<std::mutex>* lock);
  void Run();
  std::optional<SampleTask> Next();
  void TakeNamed(NamedReading named);
  void Write(const SampleOf& sample);

  int64_t period_ns_;
  std::atomic<int64_t> start_ns_ = std::numeric_limits<int64_t>::max();
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  size_t waiting_bytes_ = 0;
  bool is_idle_ = true;
  bool stop_ = false;
  std::string failure_;
  std::vector<std::byte> ready_;
  std::atomic<uint64_t> lost_ = 0;

  // The next two members are for the thread alone.
  absl::flat_hash_map<uint64_t, NamedSample> named_;  // by the reading's number
  std::vector<std::byte> records_;
  std::thread thread_;
};

}  // namespace proftrace
