// The loader's end of the GPU agent's ring, with memory that a job may have filled with anything.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <vector>

#include "userspace/base/clock.h"
#include "userspace/capture/gpu/agent_ring.h"

namespace proftrace {
namespace {

constexpr uint64_t kRingBytes = 1 << 14;

// The memory as an agent makes it, with the test in the place of the agent.
class AgentRingTest : public testing::Test {
 protected:
  AgentRingTest() {
    memory_ = UniqueFd(static_cast<int>(
        syscall(SYS_memfd_create, PT_AGENT_MEMORY_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING)));
    EXPECT_EQ(ftruncate(memory_.get(), kBytes), 0);
    page_ = static_cast<abi::pt_agent_page*>(
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.get(), 0));
    ring_ = reinterpret_cast<uint8_t*>(page_) + PT_AGENT_PAGE_BYTES;
    page_->version = PT_AGENT_VERSION;
    page_->page_bytes = PT_AGENT_PAGE_BYTES;
    page_->ring_bytes = kRingBytes;
    page_->magic = PT_AGENT_MAGIC;
  }
  ~AgentRingTest() override { munmap(page_, kBytes); }

  void Seal() { fcntl(memory_.get(), F_ADD_SEALS, F_SEAL_SHRINK); }

  absl::StatusOr<std::unique_ptr<AgentRing>> TryOpen() {
    return AgentRing::FromMemory(UniqueFd(dup(memory_.get())), Pid{7},
                                 [](uint32_t tid) { return tid + 100; });
  }
  void Open() {
    Seal();
    auto ring = TryOpen();
    ASSERT_TRUE(ring.ok()) << ring.status();
    reader_ = *std::move(ring);
  }

  // A record of `words` words, each byte behind its head `fill`; as the agent writes it.
  void Put(uint8_t kind, uint8_t words, uint8_t fill = 0) {
    std::vector<uint8_t> bytes(std::max(words * 8, 24), fill);
    abi::pt_record head{};
    head.time_ns = 1;
    head.pid = 99999;
    head.tid = 5;
    head.kind = kind;
    head.words = words;
    std::memcpy(bytes.data(), &head, sizeof(head));
    for (size_t at = 0; at < bytes.size(); ++at) {
      ring_[(page_->written + at) % kRingBytes] = bytes[at];
    }
    page_->written += bytes.size();
  }

  std::vector<std::vector<uint8_t>> Drain() {
    std::vector<std::vector<uint8_t>> records;
    reader_->Drain([&](std::span<const std::byte> record) {
      const auto* first = reinterpret_cast<const uint8_t*>(record.data());
      records.emplace_back(first, first + record.size());
    });
    return records;
  }

  static constexpr off_t kBytes = PT_AGENT_PAGE_BYTES + kRingBytes;
  UniqueFd memory_;
  abi::pt_agent_page* page_ = nullptr;
  uint8_t* ring_ = nullptr;
  std::unique_ptr<AgentRing> reader_;
};

TEST_F(AgentRingTest, GivesWholeRecordsWithTheLoadersIds) {
  Open();
  Put(abi::PT_GPU_CALL, 7, 0xab);
  const auto records = Drain();
  ASSERT_EQ(records.size(), 1u);
  ASSERT_EQ(records[0].size(), 56u);
  abi::pt_record head;
  std::memcpy(&head, records[0].data(), sizeof(head));
  EXPECT_EQ(head.pid, 7u);
  EXPECT_EQ(head.tid, 105u);
  EXPECT_EQ(head.kind, abi::PT_GPU_CALL);
  EXPECT_EQ(records[0][55], 0xab);
  EXPECT_EQ(page_->taken, page_->written);
}

TEST_F(AgentRingTest, AnAgentIsServedWhileItWorksAndItsLoaderLives) {
  const Pid self{static_cast<uint32_t>(getpid())};
  page_->pid = static_cast<uint32_t>(syscall(SYS_getpid));
  page_->heartbeat_ns = static_cast<uint64_t>(MonotonicNs());
  EXPECT_FALSE(AgentRing::IsServed(self)) << "it is nobody's: it could become smaller";
  Seal();
  EXPECT_TRUE(AgentRing::IsServed(self));
  EXPECT_EQ(page_->command, abi::PT_AGENT_RUN) << "nothing is said to it";
  page_->state = abi::PT_AGENT_STOPPED;
  EXPECT_FALSE(AgentRing::IsServed(self));
  page_->state = abi::PT_AGENT_RUNNING;
  page_->heartbeat_ns = 1;
  EXPECT_FALSE(AgentRing::IsServed(self)) << "it is about to end";
  page_->version = PT_AGENT_VERSION + 1;
  EXPECT_TRUE(AgentRing::IsServed(self)) << "of a build that is not known";
}

TEST_F(AgentRingTest, RecordsWrapAroundTheEnd) {
  Open();
  size_t got = 0;
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 7; ++i) Put(abi::PT_GPU_KERNEL, 255, static_cast<uint8_t>(round));
    for (const auto& record : Drain()) {
      EXPECT_EQ(record.size(), 2040u);
      EXPECT_EQ(record[30], round);
      EXPECT_EQ(record[2039], round);
      ++got;
    }
  }
  EXPECT_EQ(got, 700u);
  EXPECT_EQ(reader_->counts().records, 700u);
  EXPECT_EQ(reader_->counts().damages, 0u);
}

TEST_F(AgentRingTest, TellsTheAgentThatItIsThere) {
  Open();
  const auto before = static_cast<uint64_t>(MonotonicNs());
  Drain();
  EXPECT_GE(page_->heartbeat_ns, before);
  page_->heartbeat_ns = 0;
  reader_->Beat();
  EXPECT_GE(page_->heartbeat_ns, before);
  EXPECT_EQ(page_->command, abi::PT_AGENT_RUN);
  reader_->Stop();
  EXPECT_EQ(page_->command, abi::PT_AGENT_STOP);
}

TEST_F(AgentRingTest, AnImpossibleSizeEndsWhatCanBeRead) {
  Open();
  for (const uint8_t words : {0, 1, 2, 255}) {
    Put(abi::PT_GPU_CALL, 7);
    Put(abi::PT_GPU_CALL, 7);
    ring_[(page_->written - 56 + 23) % kRingBytes] = words;
    EXPECT_EQ(Drain().size(), 1u);
    EXPECT_EQ(page_->taken, page_->written);
  }
  EXPECT_EQ(reader_->counts().damages, 4u);
  EXPECT_EQ(reader_->counts().skipped_bytes, 4u * 56);
  Put(abi::PT_GPU_CALL, 7);
  EXPECT_EQ(Drain().size(), 1u);
}

TEST_F(AgentRingTest, APartOfAHeadIsDamage) {
  Open();
  page_->written += 8;
  EXPECT_TRUE(Drain().empty());
  EXPECT_EQ(reader_->counts().damages, 1u);
}

TEST_F(AgentRingTest, PositionsThatJumpAreDamage) {
  Open();
  for (const uint64_t written : {kRingBytes + 1, ~uint64_t{0}, uint64_t{3}, uint64_t{1} << 63}) {
    page_->written = written;
    Drain();
    EXPECT_EQ(page_->taken, written);
  }
  EXPECT_GE(reader_->counts().damages, 4u);
  page_->taken = 12345;  // the loader's own position counts
  Put(abi::PT_GPU_CALL, 7);
  EXPECT_EQ(Drain().size(), 1u);
}

TEST_F(AgentRingTest, RecordsThatAreNotTheAgentsAreLeftOut) {
  Open();
  Put(abi::PT_SPAN_BEGIN, 3);
  Put(200, 3);
  Put(abi::PT_GPU_CLOCK, 5);
  Put(127, 3);  // of a newer agent
  EXPECT_EQ(Drain().size(), 2u);
  EXPECT_EQ(reader_->counts().foreign, 2u);
}

TEST_F(AgentRingTest, AnyContentsAreRead) {
  Open();
  std::mt19937_64 random(27);
  for (int round = 0; round < 3000; ++round) {
    for (int i = 0; i < 64; ++i) ring_[random() % kRingBytes] = static_cast<uint8_t>(random());
    page_->written += random() % (2 * kRingBytes);
    for (const auto& record : Drain()) {
      EXPECT_GE(record.size(), 24u);
      EXPECT_EQ(record.size(), record[23] * 8u);
    }
    EXPECT_EQ(page_->taken, page_->written);
  }
}

TEST_F(AgentRingTest, MemoryThatDoesNotFitIsRefused) {
  EXPECT_FALSE(TryOpen().ok()) << "could become smaller";
  Seal();
  EXPECT_TRUE(TryOpen().ok());
  page_->version = 2;
  EXPECT_FALSE(TryOpen().ok());
  page_->version = PT_AGENT_VERSION;
  for (const uint64_t size : {uint64_t{0}, kRingBytes * 2, kRingBytes - 1}) {
    page_->ring_bytes = size;
    EXPECT_FALSE(TryOpen().ok());
  }
  page_->ring_bytes = kRingBytes;
  page_->magic = 0;
  EXPECT_FALSE(TryOpen().ok());
  EXPECT_FALSE(AgentRing::FromMemory(UniqueFd(open("/dev/zero", O_RDWR)), Pid{7}, nullptr).ok());
}

TEST_F(AgentRingTest, AStrangePageIsReported) {
  Open();
  page_->state = 77;
  page_->failure = 99;
  std::memset(page_->message, 0x1b, sizeof(page_->message));
  const AgentReport report = reader_->report();
  EXPECT_EQ(report.state, abi::PT_AGENT_STARTING);
  EXPECT_EQ(report.failure, abi::PT_AGENT_NO_FAILURE);
  EXPECT_EQ(report.message, std::string(PT_AGENT_MESSAGE_BYTES, '?'));
}

TEST_F(AgentRingTest, IsFoundInAProcess) {
  Seal();
  const auto ring =
      AgentRing::Open(Pid{static_cast<uint32_t>(getpid())}, [](uint32_t tid) { return tid; });
  ASSERT_TRUE(ring.ok()) << ring.status();
  EXPECT_NE(*ring, nullptr);
}

TEST_F(AgentRingTest, AProcessWithoutOneHasNone) {
  memory_ = UniqueFd();
  const auto ring =
      AgentRing::Open(Pid{static_cast<uint32_t>(getpid())}, [](uint32_t tid) { return tid; });
  ASSERT_TRUE(ring.ok()) << ring.status();
  EXPECT_EQ(*ring, nullptr);
  EXPECT_FALSE(AgentRing::Open(Pid{0x7fffffff}, nullptr).ok());
}

TEST_F(AgentRingTest, WaitsForTheAgentNoLongerThanTheDeadline) {
  Open();
  Put(abi::PT_GPU_CLOCK, 5);
  int records = 0;
  const auto count = [&](std::span<const std::byte>) { ++records; };
  page_->state = abi::PT_AGENT_FLUSHING;
  const int64_t deadline = MonotonicNs() + 20'000'000;
  // The test is no process with number 7 (of a kernel's thread, or of nobody).
  EXPECT_FALSE(reader_->WaitUntilStopped(deadline, count));
  page_->state = abi::PT_AGENT_STOPPED;
  EXPECT_TRUE(reader_->WaitUntilStopped(deadline, count));
  EXPECT_EQ(records, 1);
}

}  // namespace
}  // namespace proftrace
