#include "userspace/capture/kernel/mapped_ring.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <optional>
#include <random>
#include <thread>
#include <vector>

namespace proftrace {
namespace {

constexpr size_t kStride = PT_RING_CHUNK_BYTES + PT_RING_SLACK_BYTES;

// What the programs do (bpf/shared/ring.bpf.h), by threads.
class Programs {
 public:
  explicit Programs(uint32_t ring_bytes)
      : bytes_(ring_bytes), memory_(RingChunks(ring_bytes) * kStride) {
    ring.OpenMemory(memory_.data(), RingChunks(ring_bytes), {&reserved_, &consumed_});
  }

  // Room for so many words, or nothing.
  std::optional<uint64_t*> Reserve(uint32_t words) {
    const uint64_t size = PT_RING_HEAD_BYTES + words * 8;
    std::atomic_ref reserved(reserved_);
    uint64_t position = reserved.load();
    do {
      if (position + size - std::atomic_ref(consumed_).load() > bytes_) return std::nullopt;
    } while (!reserved.compare_exchange_weak(position, position + size));
    const uint64_t chunk = position / PT_RING_CHUNK_BYTES % RingChunks(bytes_);
    std::byte* place = memory_.data() + chunk * kStride + position % PT_RING_CHUNK_BYTES;
    auto* head = reinterpret_cast<uint32_t*>(place);
    EXPECT_EQ(std::atomic_ref(head[0]).load(), 0U) << "read, but not cleared";
    head[1] = words * 8;
    return reinterpret_cast<uint64_t*>(place + PT_RING_HEAD_BYTES);
  }

  static void Submit(uint64_t* record) {
    auto* head = reinterpret_cast<uint32_t*>(record) - 2;
    std::atomic_ref(head[0]).store(PT_RING_WHOLE, std::memory_order_release);
  }

  bool Write(uint64_t value, uint32_t words) {
    const std::optional<uint64_t*> record = Reserve(words);
    if (!record) return false;
    for (uint32_t i = 0; i < words; ++i) (*record)[i] = value + i;
    Submit(*record);
    return true;
  }

  std::vector<uint64_t> TakeFirstWords() {
    std::vector<uint64_t> values;
    ring.Take([&values](std::span<const std::byte> record) {
      uint64_t value = 0;
      std::memcpy(&value, record.data(), sizeof(value));
      values.push_back(value);
    });
    return values;
  }

  MappedRing ring;

 private:
  uint32_t bytes_;
  std::vector<std::byte> memory_;
  alignas(64) uint64_t reserved_ = 0;
  alignas(64) uint64_t consumed_ = 0;
};

TEST(MappedRingTest, GivesRecordsInTheOrderOfTheirRoom) {
  Programs programs(4096);
  uint64_t* first = *programs.Reserve(3);
  EXPECT_TRUE(programs.Write(20, 4));
  EXPECT_TRUE(programs.TakeFirstWords().empty()) << "the first one is not whole";
  first[0] = 10;
  Programs::Submit(first);
  EXPECT_EQ(programs.TakeFirstWords(), (std::vector<uint64_t>{10, 20}));
  EXPECT_TRUE(programs.TakeFirstWords().empty());
}

TEST(MappedRingTest, IsFullUntilItIsRead) {
  Programs programs(4096);
  size_t written = 0;
  while (programs.Write(written, 3)) ++written;
  EXPECT_EQ(written, 4096U / 32);
  EXPECT_EQ(programs.TakeFirstWords().size(), written);
  EXPECT_TRUE(programs.Write(1, 3));
  programs.ring.Discard();
  EXPECT_TRUE(programs.TakeFirstWords().empty());
}

TEST(MappedRingTest, TakesNoMoreThanWasThereWhenItBegan) {
  Programs programs(PT_RING_CHUNK_BYTES);
  programs.Write(0, 3);
  uint64_t taken = programs.ring.Take(
      [&programs](std::span<const std::byte> /*record*/) { programs.Write(1, 3); });
  EXPECT_EQ(taken, 1U);
  EXPECT_EQ(programs.TakeFirstWords().size(), 1U);
}

// Records of all sizes go over the ends of chunks and of the ring, several times.
TEST(MappedRingTest, ManyWritersLoseNothingAndKeepTheirOrder) {
  static constexpr uint64_t kEach = 60000;
  static constexpr uint64_t kWriters = 3;
  Programs programs(4 * PT_RING_CHUNK_BYTES);
  std::vector<std::thread> writers;
  for (uint64_t writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([&programs, writer] {
      std::mt19937_64 random(writer);
      for (uint64_t i = 0; i < kEach; ++i) {
        const auto words = static_cast<uint32_t>(1 + random() % (i % 50 == 0 ? 255 : 6));
        while (!programs.Write(writer << 32 | i << 8, words)) std::this_thread::yield();
      }
    });
  }
  std::vector<uint64_t> next(kWriters);
  uint64_t taken = 0;
  while (taken < kWriters * kEach) {
    taken += programs.ring.Take([&next](std::span<const std::byte> record) {
      ASSERT_EQ(record.size() % 8, 0U);
      std::vector<uint64_t> words(record.size() / 8);
      std::memcpy(words.data(), record.data(), record.size());
      const uint64_t writer = words[0] >> 32;
      ASSERT_LT(writer, kWriters);
      EXPECT_EQ((words[0] & 0xffffffff) >> 8, next[writer]++);
      for (size_t i = 1; i < words.size(); ++i) EXPECT_EQ(words[i], words[0] + i);
    });
  }
  for (std::thread& writer : writers) writer.join();
}

}  // namespace
}  // namespace proftrace
