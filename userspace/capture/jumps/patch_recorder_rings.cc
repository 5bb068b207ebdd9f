// The thread that empties the rings of patched processes, and the records that it keeps until they
// are taken.
//
// The contents of a ring may have been made up by its job. A job that floods its ring loses records
// of its own: each process has its share of the thread's time and of the memory, and none holds the
// others' records back for long.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "userspace/base/clock.h"
#include "userspace/capture/jumps/patch_recorder.h"
#include "userspace/inject/quiet_moment.h"

namespace proftrace {
namespace {

// The busiest thread fills its part of the ring in 20 ms.
constexpr useconds_t kDrainUs = 1000;
constexpr int64_t kFreeSlotsNs = 20'000'000;
// The most bytes that are kept. Beyond that the rings fill, and lost records are counted. Each
// process has an equal share of these bytes, but at least kLeastShareBytes.
constexpr size_t kMostBytes = size_t{256} << 20;
constexpr size_t kLeastShareBytes = size_t{8} << 20;
// The longest time for which a process whose ring is never empty holds the others' records back.
constexpr int64_t kPatienceNs = 1'000'000'000;
// The most drains of a ring into which nothing is written any more.
constexpr int kMostLastDrains = 1024;

// Decides whether the thread that empties the rings runs before all others. It does as long as it
// takes less than half of a processor, so that a job that makes more work does not keep other
// threads from running.
class Priority {
 public:
  void Note() {
    const int64_t now_ns = MonotonicNs();
    if (now_ns - begin_ns_ < kIntervalNs) return;
    const int64_t cpu_ns = ThreadCpuNs();
    const bool is_light = cpu_ns - cpu_begin_ns_ < (now_ns - begin_ns_) / 2;
    begin_ns_ = now_ns;
    cpu_begin_ns_ = cpu_ns;
    if (is_light && !hurry_.has_value()) hurry_.emplace();
    if (!is_light) hurry_.reset();
  }

 private:
  static constexpr int64_t kIntervalNs = 200'000'000;

  // Is set from the begin on, because a ring is full within milliseconds.
  std::optional<Hurry> hurry_{std::in_place};
  int64_t begin_ns_ = MonotonicNs();
  int64_t cpu_begin_ns_ = ThreadCpuNs();
};

}  // namespace

void PatchRecorder::Run() {
  Priority priority;
  int64_t free_slots_ns = 0;
  int64_t empty_ns = MonotonicNs();
  while (true) {
    const int64_t now_ns = MonotonicNs();
    {
      const std::lock_guard lock(mutex_);
      if (stop_) return;
      bool is_empty = true;
      for (auto& [pid, process] : processes_) is_empty &= Drain(&process);
      const bool frees_slots = now_ns >= free_slots_ns;
      for (auto& [pid, process] : processes_) {
        if (frees_slots) process.patched->FreeSlots();
      }
      if (frees_slots) free_slots_ns = now_ns + kFreeSlotsNs;
      if (is_empty) empty_ns = now_ns;
      const int64_t until_ns = std::max(empty_ns, now_ns - kPatienceNs);
      emptied_until_ns_ = begun_.empty() ? until_ns : std::min(until_ns, *begun_.begin());
    }
    priority.Note();
    usleep(kDrainUs);
  }
}

bool PatchRecorder::Drain(Process* process) {
  PatchRing* ring = process->patched->ring();
  lapse_ns_ += ring->LetWrite(kPatchLeaseNs);
  const size_t share = std::max(kMostBytes / processes_.size(), kLeastShareBytes);
  if (records_.bytes() > kMostBytes || process->kept_bytes > share) return false;
  const size_t before = records_.bytes();
  ring->Drain([this](std::span<const std::byte> record) { Keep(record); });
  process->kept_bytes += records_.bytes() - before;
  return ring->is_drained();
}

void PatchRecorder::DrainLast(Pid pid, PatchRing* ring) {
  ring->Stop();
  for (int i = 0; i < kMostLastDrains; ++i) {
    const std::lock_guard lock(mutex_);
    if (records_.bytes() > 2 * kMostBytes) break;
    ring->Drain([this](std::span<const std::byte> record) { Keep(record); });
    if (ring->is_drained()) return;
  }
  const std::lock_guard lock(mutex_);
  gaps_.push_back({"records of jumps", "PID " + std::to_string(Raw(pid)) +
                                           ": more was in its ring at the end than fits into "
                                           "memory; the rest is lost"});
}

void PatchRecorder::Keep(std::span<const std::byte> record) {
  abi::pt_record head{};
  std::memcpy(&head, record.data(), sizeof(head));
  // The module's place in its model must be looked for while the module lives, so `on_module_` gets
  // the record at once.
  if (head.kind == abi::PT_PYTHON_MODULE) on_module_(record);
  records_.Add(record);
}

void PatchRecorder::Take(const std::function<void(std::span<const std::byte>)>& on_record) {
  std::deque<std::vector<std::byte>> blocks;
  std::map<uint32_t, std::shared_ptr<JobThreads>> threads;
  {
    const std::lock_guard lock(mutex_);
    blocks = records_.Take();
    threads = threads_;
    for (auto& [pid, process] : processes_) process.kept_bytes = 0;
    // All records of processes that have ended are taken now, so their thread numbers are not
    // needed after this call.
    std::erase_if(threads_,
                  [this](const auto& entry) { return !processes_.contains(entry.first); });
  }
  for (const auto& [pid, numbers] : threads) numbers->LookForMissing();
  std::erase_if(threads, [](const auto& entry) { return !entry.second->needs_resolving(); });
  RecordBlocks::ForEach(blocks, [&](std::span<std::byte> record) {
    if (!threads.empty()) {
      abi::pt_record head{};
      std::memcpy(&head, record.data(), sizeof(head));
      if (const auto it = threads.find(head.pid); it != threads.end()) {
        head.tid = it->second->Resolve(head.tid);
        std::memcpy(record.data(), &head, sizeof(head));
      }
    }
    on_record(record);
  });
  const std::lock_guard lock(mutex_);
  records_.GiveBack(std::move(blocks));
}

int64_t PatchRecorder::emptied_until_ns() const {
  const std::lock_guard lock(mutex_);
  return emptied_until_ns_;
}

}  // namespace proftrace
