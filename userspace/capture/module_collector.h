// Finds out where nn.Modules hang in the models that call them, and writes that into the capture:
// the kernel's side tells of each module when it is first seen, the outermost first. On a thread of
// its own, which reads the job's memory while the job runs: the ring does not wait for it.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "symbols/python/python_layout.h"
#include "userspace/capture/capture_sink.h"
#include "userspace/model/ids.h"

namespace proftrace {

class ModuleCollector {
 public:
  // `sink` must outlive the collector.
  explicit ModuleCollector(CaptureSink* sink);
  ~ModuleCollector();
  ModuleCollector(const ModuleCollector&) = delete;
  ModuleCollector& operator=(const ModuleCollector&) = delete;

  // Modules of the process are looked for from here on. It may have had another program before.
  void SetLayout(Pid pid, const PythonLayout& layout);
  // Takes a record of the ring; records that are not of modules are of no interest.
  void Observe(std::span<const std::byte> record);
  // Waits until what was observed is written, or for some seconds. Nothing may be observed
  // afterwards.
  void Finish();
  // Returns how many modules were never looked for in their model, because too many came at once.
  uint64_t not_read() const;

 private:
  struct Seen {
    Pid pid{};
    uint64_t object = 0;
    uint64_t type = 0;
    int64_t told_ns = 0;
  };
  struct Place {
    uint64_t model = 0;
    uint64_t parent = 0;  // 0 = it is the model
    uint64_t type = 0;
    int64_t read_ns = 0;  // it was there then, or later
    std::string path;     // in it
  };
  struct Process {
    PythonLayout layout;
    absl::flat_hash_map<uint64_t, Seen> seen;     // by address: what was told of last
    absl::flat_hash_map<uint64_t, Place> places;  // of all modules of the models read so far
    std::vector<uint64_t> models;
  };
  // The children of each module that was looked through, by address.
  using Children = absl::flat_hash_map<uint64_t, absl::flat_hash_set<uint64_t>>;

  void Run();
  void Collect(const Seen& seen);
  // Reads the model below `root`; true when `object` is in it. Modules that were models themselves,
  // or in them, are a part of this one then.
  bool ReadModel(Pid pid, uint64_t root, uint64_t object, Process* process);
  // Finds the model that `seen` is in, or makes it one. False: there are too many of them.
  bool FindModel(const Seen& seen, Process* process);
  // Whether the module at `object` is still the one that was read at its place: it may be gone, and
  // another one lie there.
  bool IsStillThere(Pid pid, uint64_t object, Process* process, Children* children);

  CaptureSink* sink_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Seen> seen_;
  absl::flat_hash_map<uint32_t, size_t> waiting_;  // how many of them, by pid
  uint64_t not_read_ = 0;
  std::vector<std::pair<Pid, PythonLayout>> layouts_;  // that the thread does not know yet
  bool stop_ = false;
  int64_t finish_until_ns_ = 0;
  absl::flat_hash_map<uint32_t, Process> processes_;  // by pid; the thread's own
  std::thread thread_;
};

}  // namespace proftrace
