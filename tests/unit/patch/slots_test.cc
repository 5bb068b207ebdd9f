// Slots of the ring: a thread has one alone, and when it has ended another one may.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/ring_recorder.h"

namespace proftrace {
namespace {

// Threads that have recorded once, and wait; when they are released they do `work` and end.
class Parked {
 public:
  Parked(Recorder* recorder, int count, std::function<void()> work) {
    for (int t = 0; t < count; ++t) {
      threads_.emplace_back([this, recorder, work] {
        recorder->Record(1, 1, 64);
        ++waiting_;
        while (!go_) usleep(1000);
        work();
      });
    }
    while (waiting_ < count) usleep(1000);
  }

  void Release() {
    go_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<int> waiting_{0};
  std::atomic<bool> go_{false};
  std::vector<std::thread> threads_;
};

// More threads at once than there are slots: counted, nobody waits, no slot is shared.
TEST(PatchSlots, CountsThreadsWithoutSlot) {
  Recorder recorder;
  constexpr int kThreads = PATCH_SLOTS + 40;
  Parked parked(&recorder, kThreads, [] {});
  parked.Release();
  const size_t seen = recorder.Drain().size();
  EXPECT_LE(seen, static_cast<size_t>(PATCH_SLOTS));
  EXPECT_GT(seen, static_cast<size_t>(PATCH_SLOTS) / 2);
  EXPECT_EQ(seen + recorder.ring()->counts().lost, static_cast<size_t>(kThreads));
  EXPECT_EQ(recorder.ring()->counts().unslotted, recorder.ring()->counts().lost);
  EXPECT_GT(recorder.ring()->counts().unslotted_threads, 0u);
  EXPECT_LE(recorder.ring()->counts().unslotted_threads, recorder.ring()->counts().lost);
}

// Threads on stacks of our own, whose control blocks lie at these.
class Stacks {
 public:
  explicit Stacks(size_t count) : count_(count) {
    memory_ = static_cast<std::byte*>(mmap(nullptr, count * kBytes, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  }
  ~Stacks() { munmap(memory_, count_ * kBytes); }
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;

  // Runs `work` on a thread on stack `i`, until it has ended.
  void Run(size_t i, std::function<void()> work) const {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    ASSERT_EQ(pthread_attr_setstack(&attributes, memory_ + i * kBytes, kBytes), 0);
    pthread_t thread{};
    const auto run = [](void* of) -> void* {
      (*static_cast<std::function<void()>*>(of))();
      return nullptr;
    };
    ASSERT_EQ(pthread_create(&thread, &attributes, run, &work), 0);
    pthread_join(thread, nullptr);
    pthread_attr_destroy(&attributes);
  }

 private:
  static constexpr size_t kBytes = 16 * 4096;
  size_t count_;
  std::byte* memory_;
};

bool HasEnded(uint64_t control_block, uint32_t tid) {
  if (access(("/proc/" + std::to_string(tid)).c_str(), F_OK) == 0) return false;
  uint32_t number = 0;
  const uint64_t at = control_block + static_cast<uint64_t>(int64_t{TidOffset()});
  std::memcpy(&number, reinterpret_cast<const void*>(at), sizeof(number));
  return number == 0 || access(("/proc/" + std::to_string(number)).c_str(), F_OK) != 0;
}

TEST(PatchSlots, GivesSlotsOfEndedThreadsToNewOnes) {
  Recorder recorder;
  constexpr size_t kThreads = 4 * PATCH_SLOTS;
  const Stacks stacks(kThreads);
  std::map<uint16_t, int> seen;
  for (size_t i = 0; i < kThreads; ++i) {
    stacks.Run(i, [&] { recorder.Record(static_cast<uint16_t>(i), 1, 64); });
    if (i % 20 != 0) continue;
    for (const Seen& record : recorder.Drain()) ++seen[record.site];
    recorder.ring()->FreeSlots(HasEnded);
  }
  for (const Seen& record : recorder.Drain()) ++seen[record.site];
  EXPECT_EQ(seen.size(), kThreads);
  EXPECT_EQ(recorder.ring()->counts().lost, 0u);
  EXPECT_EQ(recorder.ring()->counts().unslotted_threads, 0u);
}

// One that sleeps has its slot as long as it lives, whoever comes and goes meanwhile.
TEST(PatchSlots, KeepsTheSlotsOfLivingThreads) {
  Recorder recorder;
  constexpr int kThreads = PATCH_SLOTS / 2;
  Parked parked(&recorder, kThreads, [&recorder] {
    for (int i = 0; i < 100; ++i) recorder.Record(2, 1, 64);
  });
  size_t seen = recorder.Drain().size();
  const auto owners = [&recorder] {
    std::vector<uint64_t> all(PATCH_SLOTS);
    for (size_t i = 0; i < PATCH_SLOTS; ++i) {
      std::memcpy(&all[i], recorder.memory() + PATCH_RING_HEADER_BYTES + (i << PATCH_SLOT_SHIFT),
                  sizeof(uint64_t));
    }
    return all;
  };
  const std::vector<uint64_t> before = owners();
  for (int i = 0; i < 3; ++i) recorder.ring()->FreeSlots(HasEnded);
  EXPECT_EQ(owners(), before);
  // Also where they are wrongly held to have ended: for the time being nobody else gets them.
  recorder.ring()->FreeSlots([](uint64_t, uint32_t) { return true; });
  parked.Release();
  EXPECT_EQ(owners(), before);
  seen += recorder.Drain().size();
  EXPECT_EQ(seen, static_cast<size_t>(kThreads) * 101);
  EXPECT_EQ(recorder.ring()->counts().lost, 0u);
}

// Short threads at addresses that are used again and again, while the reader frees what it can: who
// has a slot has it alone.
TEST(PatchSlots, CountsAllOfThreadsThatComeAndGo) {
  Recorder recorder;
  constexpr size_t kStarters = 4;
  constexpr size_t kStacksEach = 150;
  constexpr int kThreadsEach = 3000;
  constexpr int kRecords = 20;
  const Stacks stacks(kStarters * kStacksEach);
  std::atomic<bool> done{false};
  uint64_t seen = 0;
  std::map<uint32_t, uint32_t> last;  // by tid
  uint64_t disordered = 0;
  std::thread reader([&] {
    for (bool is_last = false; !is_last;) {
      is_last = done;
      for (const Seen& record : recorder.Drain()) {
        ++seen;
        // A thread counts from 0 on; another one may have its number by then.
        if (record.sp != 0 && last[record.tid] + 1 != record.sp) ++disordered;
        last[record.tid] = record.sp;
      }
      recorder.ring()->FreeSlots(HasEnded);
    }
  });
  std::vector<std::thread> starters;
  for (size_t s = 0; s < kStarters; ++s) {
    starters.emplace_back([&, s] {
      uint32_t random = static_cast<uint32_t>(s) + 1;
      for (int t = 0; t < kThreadsEach; ++t) {
        random = random * 1664525 + 1013904223;
        stacks.Run(s * kStacksEach + (random >> 8) % kStacksEach, [&] {
          for (uint64_t i = 0; i < kRecords; ++i) recorder.Record(7, 1, i << 3);
        });
      }
    });
  }
  for (std::thread& thread : starters) thread.join();
  done = true;
  reader.join();
  const PatchRingCounts counts = recorder.ring()->counts();
  EXPECT_EQ(seen + counts.lost, uint64_t{kStarters} * kThreadsEach * kRecords);
  EXPECT_EQ(counts.lost, counts.unslotted);
  EXPECT_GT(seen, uint64_t{PATCH_SLOTS} * kRecords);
  EXPECT_EQ(disordered, 0u);
  EXPECT_EQ(counts.damages + counts.abandoned, 0u);
}

}  // namespace
}  // namespace proftrace
