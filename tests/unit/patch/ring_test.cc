// Threads of this process record by the recorder's own code into a ring of its own.
#include "userspace/patch/patch_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "bpf/abi/records.h"
#include "tests/support/ring_recorder.h"
#include "userspace/base/clock.h"
#include "userspace/patch/recorder_code.h"

namespace proftrace {
namespace {

TEST(PatchRing, RecordsOneThread) {
  Recorder recorder;
  const auto before = static_cast<uint64_t>(MonotonicNs());
  for (uint16_t i = 0; i < 800; ++i)
    recorder.Record(i, abi::PT_SPAN_BEGIN, 0x7fff12345678 + 8u * i);
  const std::vector<Seen> seen = recorder.Drain();
  const auto after = static_cast<uint64_t>(MonotonicNs());
  ASSERT_EQ(seen.size(), 800u);
  uint64_t last = before - 100;
  for (uint16_t i = 0; i < 800; ++i) {
    EXPECT_EQ(seen[i].site, i);
    EXPECT_EQ(seen[i].kind, abi::PT_SPAN_BEGIN);
    EXPECT_EQ(seen[i].tid, OwnTid());
    EXPECT_EQ(seen[i].sp, static_cast<uint32_t>((0x7fff12345678 + 8u * i) >> 3));
    EXPECT_GE(seen[i].time_ns, last);
    last = seen[i].time_ns;
  }
  EXPECT_LE(last, after + 100);
  EXPECT_TRUE(recorder.Drain().empty());
  EXPECT_EQ(recorder.ring()->counts().lost, 0u);
}

// More than a slot holds, taken out meanwhile: each record once, in order.
TEST(PatchRing, GoesAroundManyTimes) {
  Recorder recorder;
  uint64_t next = 0;
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 701; ++i) recorder.Record(static_cast<uint16_t>(round * 701 + i), 2, 64);
    for (const Seen& seen : recorder.Drain()) EXPECT_EQ(seen.site, static_cast<uint16_t>(next++));
  }
  EXPECT_EQ(next, 200u * 701);
  EXPECT_EQ(recorder.ring()->counts().damages + recorder.ring()->counts().abandoned, 0u);
}

// What has no room is counted, and told before the next record that has.
TEST(PatchRing, TellsOfLosses) {
  Recorder recorder;
  for (int i = 0; i < 3000; ++i) recorder.Record(static_cast<uint16_t>(i), 1, 64);
  std::vector<Seen> seen = recorder.Drain();
  const size_t kept = seen.size();
  EXPECT_GT(kept, 800u);
  EXPECT_LT(kept, 1400u);
  for (size_t i = 0; i < kept; ++i) EXPECT_EQ(seen[i].site, i);
  EXPECT_EQ(recorder.ring()->counts().lost, 3000 - kept);
  recorder.Record(7, 2, 64);
  recorder.Record(8, 2, 64);
  seen = recorder.Drain();
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].kind, abi::PT_LOSS);
  EXPECT_EQ(seen[0].value, 3000 - kept);
  EXPECT_EQ(seen[1].site, 7);
  EXPECT_EQ(seen[2].site, 8);
  EXPECT_EQ(recorder.ring()->counts().lost, 3000 - kept);
}

TEST(PatchRing, SeparatesThreads) {
  Recorder recorder;
  constexpr int kThreads = 24;
  constexpr int kEach = 20000;
  std::atomic<int> running{kThreads};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        recorder.Record(static_cast<uint16_t>(i), 1, OwnTid() * 8ull);
        if (i % 500 == 499) usleep(200);
      }
      --running;
    });
  }
  std::map<uint32_t, uint64_t> count;
  std::map<uint32_t, uint64_t> last_ns;
  uint64_t told = 0;
  while (true) {
    const bool is_last = running == 0;
    for (const Seen& seen : recorder.Drain()) {
      if (seen.kind == abi::PT_LOSS) {
        told += seen.value;
        continue;
      }
      ++count[seen.tid];
      EXPECT_EQ(seen.sp, seen.tid);
      EXPECT_GE(seen.time_ns, last_ns[seen.tid]);
      last_ns[seen.tid] = seen.time_ns;
    }
    if (is_last) break;
    usleep(300);
  }
  for (std::thread& thread : threads) thread.join();
  uint64_t total = recorder.ring()->counts().lost;
  for (const auto& [tid, records] : count) total += records;
  EXPECT_EQ(total, uint64_t{kThreads} * kEach);
  EXPECT_EQ(recorder.ring()->counts().damages + recorder.ring()->counts().abandoned, 0u);
  EXPECT_LE(told, recorder.ring()->counts().lost);
}

Recorder* handler_recorder = nullptr;
std::atomic<uint64_t> handled{0};

// Handlers that record in the middle of records: none is lost, or mixed with another.
TEST(PatchRing, LetsSignalHandlersRecord) {
  Recorder recorder;
  handler_recorder = &recorder;
  struct sigaction action {};
  action.sa_handler = [](int) {
    handler_recorder->Record(2, 1, 64);
    ++handled;
  };
  sigaction(SIGALRM, &action, nullptr);
  timer_t timer{};
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGALRM;
  event._sigev_un._tid = static_cast<pid_t>(OwnTid());
  ASSERT_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
  const itimerspec often{{0, 100'000}, {0, 100'000}};
  timer_settime(timer, 0, &often, nullptr);
  uint64_t own = 0;
  uint64_t seen_own = 0;
  uint64_t seen_handled = 0;
  // A busy machine lets few signals come: so many that some came while a record was written.
  const int64_t end_ns = MonotonicNs() + 30'000'000'000;
  while (seen_handled < 1000 && MonotonicNs() < end_ns) {
    for (int i = 0; i < 200; ++i, ++own) recorder.Record(1, 1, 64);
    for (const Seen& seen : recorder.Drain()) {
      if (seen.kind != abi::PT_LOSS) ++(seen.site == 1 ? seen_own : seen_handled);
    }
  }
  timer_delete(timer);
  signal(SIGALRM, SIG_IGN);
  recorder.ring()->LetWrite(kLong);
  for (const Seen& seen : recorder.Drain()) {
    if (seen.kind != abi::PT_LOSS) ++(seen.site == 1 ? seen_own : seen_handled);
  }
  EXPECT_EQ(seen_own + seen_handled + recorder.ring()->counts().lost, own + handled.load());
  EXPECT_EQ(recorder.ring()->counts().abandoned, 0u);
  EXPECT_EQ(recorder.ring()->counts().damages, 0u);
  EXPECT_GE(seen_handled, 1000u);
  EXPECT_LT(recorder.ring()->counts().lost, seen_handled / 10);
}

// A reader that comes too late says so before the next record of each thread.
TEST(PatchRing, TellsOfLapses) {
  Recorder recorder;
  EXPECT_EQ(recorder.ring()->LetWrite(kLong), 0);
  recorder.Record(1, 1, 64);
  recorder.ring()->LetWrite(2'000'000);
  recorder.Record(2, 1, 64);
  usleep(5000);
  recorder.Record(3, 1, 64);  // nobody hears of it
  EXPECT_GT(recorder.ring()->LetWrite(kLong), 1'000'000);
  recorder.Record(4, 1, 64);
  std::vector<Seen> seen = recorder.Drain();
  ASSERT_EQ(seen.size(), 4u);
  EXPECT_EQ(seen[1].site, 2);
  EXPECT_EQ(seen[2].kind, abi::PT_LOSS);
  EXPECT_EQ(seen[2].value, 1u);
  EXPECT_EQ(seen[2].tid, OwnTid());
  EXPECT_GE(seen[2].time_ns, seen[1].time_ns);
  EXPECT_GE(seen[3].time_ns, seen[2].time_ns);
  EXPECT_EQ(seen[3].site, 4);
  EXPECT_EQ(recorder.ring()->counts().lapses, 1u);
  recorder.Record(5, 1, 64);
  EXPECT_EQ(recorder.Drain().size(), 1u);
}

TEST(PatchRing, ForkedChildrenAndLateWritersRecordNothing) {
  Recorder recorder;
  recorder.Record(1, 1, 64);
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 100; ++i) recorder.Record(9, 1, 64);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(recorder.Drain().size(), 1u);
  recorder.ring()->LetWrite(1'000'000);
  usleep(3000);
  recorder.Record(3, 1, 64);
  recorder.ring()->LetWrite(kLong);
  EXPECT_TRUE(recorder.Drain().empty());
  recorder.ring()->Stop();
  recorder.Record(3, 1, 64);
  EXPECT_TRUE(recorder.Drain().empty());
}

// An operator's begins are counted at once; its ends go on for as long as calls may be open.
TEST(PatchRing, CountsDemotedSites) {
  Recorder recorder;
  const auto call = [&recorder] {
    recorder.Record(7, abi::PT_SPAN_BEGIN, 64);
    recorder.Record(8, abi::PT_SPAN_BEGIN, 64);
    recorder.Record(8, abi::PT_SPAN_END, 64);
    recorder.Record(7, abi::PT_SPAN_END, 64);
  };
  call();
  EXPECT_EQ(recorder.Drain().size(), 4u);
  ASSERT_TRUE(recorder.ring()->Demote(7, /*records_ends=*/true));
  call();
  std::vector<Seen> seen = recorder.Drain();
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[2].site, 7);
  EXPECT_EQ(seen[2].kind, abi::PT_SPAN_END);
  ASSERT_TRUE(recorder.ring()->Demote(7, /*records_ends=*/false));
  call();
  seen = recorder.Drain();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].site, 8);
  EXPECT_EQ(recorder.ring()->CountedCalls(7), 2u);
  EXPECT_EQ(recorder.ring()->CountedCalls(8), 0u);
}

struct AutogradState {
  uint64_t next = 41;
  uint64_t thread_number = 5;
  uint8_t mode = 1;
  uint8_t is_set = 1;
};
thread_local AutogradState autograd_state;

// Sequence numbers are those of the thread, of operators with an autograd key while gradients are
// on; a thread's own number comes before the first of them.
TEST(PatchRing, RecordsSequenceNumbers) {
  constexpr uint32_t kLowestKey = 21;
  constexpr uint32_t kHighestOnly = 1u << 24;
  Recorder recorder;
  const uint64_t* dtv = nullptr;
  asm("mov %%fs:8, %0" : "=r"(dtv));
  // This program is the first module.
  const uint64_t index[2] = {1, reinterpret_cast<uint64_t>(&autograd_state) - dtv[2]};
  const auto variable = [&](size_t offset) {
    return abi::pt_thread_variable{reinterpret_cast<uint64_t>(index),
                                   static_cast<abi::pt_s64>(offset)};
  };
  abi::pt_autograd_layout layout{};
  layout.sequence = variable(offsetof(AutogradState, next));
  layout.thread_number = variable(offsetof(AutogradState, thread_number));
  layout.grad_mode = variable(offsetof(AutogradState, mode));
  layout.grad_mode_set = variable(offsetof(AutogradState, is_set));
  recorder.SetAutograd(layout);
  const auto run = [&] {
    for (const uint64_t keys : {0, 1, 4, 8, 9, 0x40}) {
      recorder.RecordOperator(7, keys << kLowestKey | 0xfffff, kLowestKey << 16);
      recorder.RecordOperator(8, keys << kLowestKey, kLowestKey << 16 | kHighestOnly);
      ++autograd_state.next;
    }
    autograd_state.mode = 0;
    recorder.RecordOperator(9, uint64_t{1} << kLowestKey, kLowestKey << 16);
  };
  for (const bool is_other : {false, true}) {
    if (is_other) {
      std::thread([&] {
        autograd_state.next = 41;
        run();
      }).join();
    } else {
      run();
    }
    using testing::Pair;
    std::vector<std::pair<uint16_t, uint64_t>> seen;
    for (const Seen& record : recorder.Drain()) {
      EXPECT_EQ(record.kind, record.site == 0 ? abi::PT_THREAD_NUMBER : abi::PT_SPAN_BEGIN);
      EXPECT_EQ(record.sp, record.site == 0 ? 0u : 8u);
      seen.emplace_back(record.site, record.value);
    }
    EXPECT_THAT(seen,
                testing::ElementsAre(Pair(7, 0), Pair(8, 0), Pair(0, 5), Pair(7, 42), Pair(8, 42),
                                     Pair(7, 43), Pair(8, 43), Pair(7, 0), Pair(8, 0), Pair(7, 45),
                                     Pair(8, 0), Pair(7, 0), Pair(8, 0), Pair(9, 0)));
  }
}

TEST(PatchRing, CountsDemotedOperators) {
  Recorder recorder;
  recorder.RecordOperator(7);
  EXPECT_EQ(recorder.Drain().size(), 1u);
  ASSERT_TRUE(recorder.ring()->Demote(6, true));
  ASSERT_TRUE(recorder.ring()->Demote(7, true));
  for (int i = 0; i < 10; ++i) recorder.RecordOperator(7);
  recorder.RecordOperator(8);
  const std::vector<Seen> seen = recorder.Drain();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].site, 8);
  EXPECT_EQ(recorder.ring()->CountedCalls(6), 0u);
  EXPECT_EQ(recorder.ring()->CountedCalls(7), 10u);
}

TEST(PatchRing, CountsEveryCallOfAllThreads) {
  Recorder recorder;
  ASSERT_TRUE(recorder.ring()->Demote(3, false));
  ASSERT_TRUE(recorder.ring()->Demote(4, false));
  constexpr int kThreads = 8;
  constexpr int kEach = 50000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        recorder.Record(3, abi::PT_SPAN_BEGIN, 64);
        if (i % 2 == 0) recorder.Record(4, abi::PT_SPAN_BEGIN, 64);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(recorder.ring()->CountedCalls(3), uint64_t{kThreads} * kEach);
  EXPECT_EQ(recorder.ring()->CountedCalls(4), uint64_t{kThreads} * kEach / 2);
  EXPECT_TRUE(recorder.Drain().empty());
}

TEST(PatchRing, HasCountersForSoManySites) {
  Recorder recorder;
  for (uint16_t site = 1; site < PATCH_COUNTERS; ++site) {
    ASSERT_TRUE(recorder.ring()->Demote(site, true));
  }
  EXPECT_FALSE(recorder.ring()->Demote(PATCH_COUNTERS, true));
  EXPECT_TRUE(recorder.ring()->Demote(PATCH_COUNTERS - 1, false));
}

// The job may write anything into what it shares.
TEST(PatchRing, SurvivesAnyContents) {
  Recorder recorder;
  unsigned state = 1;
  const auto random = [&state] { return state = state * 1664525u + 1013904223u, state >> 4; };
  for (int round = 0; round < 300; ++round) {
    for (int i = 0; i < 50; ++i) recorder.Record(1, 1, 64);
    const size_t bytes = PatchRing::Bytes(Options());
    for (int i = 0; i < 2000; ++i) {
      const size_t at = PATCH_RING_HEADER_BYTES + random() % (bytes - PATCH_RING_HEADER_BYTES);
      // The owner's and the place's words would send this process's own threads astray.
      const size_t in_slot = (at - PATCH_RING_HEADER_BYTES) % (1 << PATCH_SLOT_SHIFT);
      const bool is_table = at < PATCH_RING_HEADER_BYTES + (PATCH_SLOTS << PATCH_SLOT_SHIFT);
      if (is_table && in_slot >= PATCH_SLOT_WORDS && in_slot < PATCH_SLOT_LOST) continue;
      if (is_table && in_slot < PATCH_SLOT_TAIL) continue;
      if (is_table && in_slot >= PATCH_SLOT_COUNTS && in_slot < PATCH_SLOT_COUNTS + 8) continue;
      recorder.memory()[at] = static_cast<std::byte>(random());
    }
    recorder.Drain();
  }
}

// What only the tracer's own programs say is not believed.
TEST(PatchRing, TakesNoNewsOfProcessesFromAJob) {
  Recorder recorder;
  const uint8_t kinds[] = {abi::PT_FORK,          abi::PT_EXEC,   abi::PT_THREAD_EXIT,
                           abi::PT_LOSS_ANYWHERE, abi::PT_SAMPLE, 255};
  for (const uint8_t kind : kinds) recorder.Record(1, kind, 64);
  recorder.Record(2, abi::PT_SPAN_BEGIN, 64);
  const std::vector<Seen> seen = recorder.Drain();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].kind, abi::PT_LOSS);
  EXPECT_EQ(seen[0].value, std::size(kinds));
  EXPECT_EQ(seen[1].site, 2);
  EXPECT_EQ(recorder.ring()->counts().damages, std::size(kinds));
}

// A job that says of all slots that they are full, of nothing.
TEST(PatchRing, LooksForRecordsWhereThereAreNoneForAWhileOnly) {
  Recorder recorder;
  recorder.Record(1, abi::PT_SPAN_BEGIN, 64);
  ASSERT_EQ(recorder.Drain().size(), 1u);
  for (size_t i = PATCH_SLOTS / 2; i < PATCH_SLOTS; ++i) {
    std::byte* slot = recorder.memory() + PATCH_RING_HEADER_BYTES + (i << PATCH_SLOT_SHIFT);
    uint64_t owner = 0;
    std::memcpy(&owner, slot + PATCH_SLOT_OWNER, sizeof(owner));
    if (owner != 0) continue;  // this thread's
    owner = 0x7fff00000000;
    const uint64_t tail = kSlotWords;
    std::memcpy(slot + PATCH_SLOT_OWNER, &owner, sizeof(owner));
    std::memcpy(slot + PATCH_SLOT_TAIL, &tail, sizeof(tail));
  }
  const auto cpu_ns = [] { return ClockNs(CLOCK_THREAD_CPUTIME_ID); };
  const int64_t begin_ns = MonotonicNs();
  int64_t looked_ns = 0;
  uint64_t drains = 0;
  size_t taken = 0;
  for (; MonotonicNs() - begin_ns < 3'000'000'000; ++drains) {
    recorder.Record(1, abi::PT_SPAN_BEGIN, 64);
    const int64_t before_ns = cpu_ns();
    taken += recorder.Drain().size();
    looked_ns += cpu_ns() - before_ns;
    usleep(1000);
  }
  EXPECT_GE(taken + 1, drains);  // the last one may wait for the clock
  // Each word once a second, not at each drain.
  EXPECT_LT(looked_ns / static_cast<int64_t>(drains), 1'000'000);
}

TEST(TscClock, FollowsTheMonotonicClock) {
  TscClock clock;
  int64_t last = 0;
  for (int i = 0; i < 50; ++i) {
    usleep(500);
    const int64_t before = MonotonicNs();
    unsigned processor = 0;
    const uint64_t counter = __builtin_ia32_rdtscp(&processor);
    const int64_t after = MonotonicNs();
    clock.Advance();
    ASSERT_GE(clock.now(), counter);
    const int64_t time_ns = clock.ToNs(counter);
    EXPECT_GE(time_ns, before - 100 - clock.error_ns());
    EXPECT_LE(time_ns, after + 100 + clock.error_ns());
    EXPECT_GE(time_ns, last);
    last = time_ns;
    EXPECT_LE(clock.ToNs(counter - 1000), time_ns);
  }
}

}  // namespace
}  // namespace proftrace
