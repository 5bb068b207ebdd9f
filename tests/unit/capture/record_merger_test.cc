#include "userspace/capture/records/record_merger.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "bpf/abi/records.h"

namespace proftrace {
namespace {

constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

std::vector<std::byte> Record(uint32_t tid, uint64_t time_ns, uint16_t site, uint8_t words = 3) {
  abi::pt_record head{};
  head.time_ns = time_ns;
  head.tid = tid;
  head.site = site;
  head.kind = abi::PT_SPAN_BEGIN;
  head.words = words;
  std::vector<std::byte> bytes(size_t{words} * 8);
  std::memcpy(bytes.data(), &head, sizeof(head));
  return bytes;
}

struct Seen {
  uint32_t tid = 0;
  uint64_t time_ns = 0;
  uint16_t site = 0;
  RecordOrigin origin = RecordOrigin::kJump;
};

std::vector<Seen> Emit(RecordMerger* merger, int64_t until_ns) {
  std::vector<Seen> seen;
  merger->Emit(until_ns, [&seen](std::span<const std::byte> record, RecordOrigin origin) {
    abi::pt_record head{};
    std::memcpy(&head, record.data(), sizeof(head));
    EXPECT_EQ(record.size(), size_t{head.words} * 8);
    seen.push_back({head.tid, head.time_ns, head.site, origin});
  });
  return seen;
}

TEST(RecordMerger, PutsTwoSourcesInOrder) {
  RecordMerger merger;
  merger.Add(Record(7, 10, 1), RecordOrigin::kJump);
  merger.Add(Record(7, 40, 2, 5), RecordOrigin::kJump);
  merger.Add(Record(7, 20, 3, 35), RecordOrigin::kProbe);
  merger.Add(Record(7, 40, 4), RecordOrigin::kProbe);
  const std::vector<Seen> seen = Emit(&merger, kAll);
  ASSERT_EQ(seen.size(), 4u);
  EXPECT_EQ(seen[0].site, 1);
  EXPECT_EQ(seen[1].site, 3);
  EXPECT_EQ(seen[1].origin, RecordOrigin::kProbe);
  EXPECT_EQ(seen[2].site, 2);  // of two at the same time the jump's
  EXPECT_EQ(seen[3].site, 4);
  EXPECT_TRUE(Emit(&merger, kAll).empty());
}

// What a thread of a pool begins may have its name from the one that asked for it.
TEST(RecordMerger, PutsThreadsInOrder) {
  RecordMerger merger;
  for (uint16_t i = 0; i < 300; ++i) {
    const auto origin = i % 7 < 3 ? RecordOrigin::kJump : RecordOrigin::kProbe;
    merger.Add(Record(100 + (i * 37) % 50, 10 + i, i), origin);
  }
  const std::vector<Seen> seen = Emit(&merger, 209);
  ASSERT_EQ(seen.size(), 200u);
  for (uint16_t i = 0; i < 200; ++i) EXPECT_EQ(seen[i].site, i);
  EXPECT_EQ(Emit(&merger, kAll).front().site, 200);
}

TEST(RecordMerger, KeepsWhatIsTooYoung) {
  RecordMerger merger;
  merger.Add(Record(7, 10, 1), RecordOrigin::kJump);
  merger.Add(Record(7, 30, 2), RecordOrigin::kJump);
  merger.Add(Record(7, 31, 3), RecordOrigin::kProbe);
  EXPECT_EQ(Emit(&merger, 29).size(), 1u);
  merger.Add(Record(7, 25, 4), RecordOrigin::kProbe);  // behind its own source's last: stays there
  EXPECT_EQ(Emit(&merger, 30).size(), 1u);
  const std::vector<Seen> rest = Emit(&merger, kAll);
  ASSERT_EQ(rest.size(), 2u);
  EXPECT_EQ(rest[0].site, 3);
  EXPECT_EQ(rest[1].site, 4);
}

// Random streams, given in random pieces: what comes out of a thread is sorted, and all of it.
TEST(RecordMerger, LosesNothing) {
  std::mt19937 random(20);
  RecordMerger merger;
  std::map<uint32_t, uint64_t> last_out;
  uint64_t now_ns = 0;
  constexpr int kRecords = 50'000;
  size_t seen = 0;
  const auto take = [&](int64_t until_ns) {
    for (const Seen& record : Emit(&merger, until_ns)) {
      EXPECT_GE(record.time_ns, last_out[record.tid]);
      EXPECT_LE(record.time_ns, static_cast<uint64_t>(until_ns));
      last_out[record.tid] = record.time_ns;
      ++seen;
    }
  };
  // A source that is behind: its records come in the end of each round.
  std::vector<std::vector<std::byte>> behind;
  for (int i = 0; i < kRecords; ++i) {
    now_ns += 1 + random() % 3;
    const auto record = Record(1 + random() % 5, now_ns, static_cast<uint16_t>(i),
                               static_cast<uint8_t>(3 + random() % 40));
    if (random() % 3 == 0) {
      behind.push_back(record);
    } else {
      merger.Add(record, RecordOrigin::kJump);
    }
    if (random() % 500 != 0) continue;
    for (const auto& late : behind) merger.Add(late, RecordOrigin::kProbe);
    behind.clear();
    take(static_cast<int64_t>(now_ns) - 50);
  }
  for (const auto& late : behind) merger.Add(late, RecordOrigin::kProbe);
  take(kAll);
  EXPECT_EQ(seen, static_cast<size_t>(kRecords));
}

}  // namespace
}  // namespace proftrace
