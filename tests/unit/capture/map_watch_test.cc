#include "userspace/capture/processes/map_watch.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace proftrace {
namespace {

constexpr uint32_t kMmap = 1;  // PERF_RECORD_MMAP
constexpr uint32_t kLost = 2;  // PERF_RECORD_LOST

void Put(std::vector<std::byte>* bytes, const void* data, size_t size) {
  const auto* first = static_cast<const std::byte*>(data);
  bytes->insert(bytes->end(), first, first + size);
}

// A record as linux/perf_event.h has it: type, misc, size; the pid and what follows it; the path.
std::vector<std::byte> Record(uint32_t type, uint32_t pid, const std::string& path) {
  const std::string text = path + std::string(8 - path.size() % 8, '\0');
  const uint16_t sizes[2] = {0, static_cast<uint16_t>(40 + text.size())};
  const uint32_t ids[2] = {pid, pid};
  const uint64_t place[3] = {0x7f0000000000, 0x1000, 0};
  std::vector<std::byte> bytes;
  Put(&bytes, &type, sizeof(type));
  Put(&bytes, sizes, sizeof(sizes));
  Put(&bytes, ids, sizeof(ids));
  Put(&bytes, place, sizeof(place));
  Put(&bytes, text.data(), text.size());
  return bytes;
}

std::vector<std::byte> Together(std::initializer_list<std::vector<std::byte>> records) {
  std::vector<std::byte> bytes;
  for (const auto& record : records) bytes.insert(bytes.end(), record.begin(), record.end());
  return bytes;
}

TEST(MapWatchTest, TellsOfFilesWhoseOwnNameSaysTorch) {
  MapNews news;
  ReadMapRecords(Together({Record(kMmap, 7, "/usr/lib/libtorch_cpu.so"),
                           Record(kMmap, 8, "/home/torch/libm.so"), Record(kMmap, 9, "//anon"),
                           Record(kMmap, 10, "libtorch.so"), Record(99, 11, "/libtorch.so")}),
                 &news);
  EXPECT_EQ(news.pids, (absl::flat_hash_set<Pid>{Pid{7}, Pid{10}}));
  EXPECT_FALSE(news.is_lossy);
}

TEST(MapWatchTest, LeavesOutProcessesThatHaveNoNumberHere) {
  MapNews news;
  ReadMapRecords(Together({Record(kMmap, 0, "/libtorch.so"), Record(kMmap, ~0u, "/libtorch.so")}),
                 &news);
  EXPECT_TRUE(news.pids.empty());
}

TEST(MapWatchTest, TellsOfLosses) {
  MapNews news;
  ReadMapRecords(Record(kLost, 1, ""), &news);
  EXPECT_TRUE(news.is_lossy);
}

TEST(MapWatchTest, StopsAtARecordWithAnImpossibleSize) {
  for (const uint16_t size : {0, 7, 4096}) {
    std::vector<std::byte> bytes = Record(kMmap, 7, "/libtorch.so");
    std::memcpy(bytes.data() + 6, &size, sizeof(size));
    MapNews news;
    ReadMapRecords(bytes, &news);
    EXPECT_TRUE(news.is_lossy);
    EXPECT_TRUE(news.pids.empty());
  }
}

TEST(MapWatchTest, ReadsNothingBehindARecordWithoutAPath) {
  std::vector<std::byte> bytes = Record(kMmap, 7, "/libtorch.so");
  const uint16_t size = 40;
  std::memcpy(bytes.data() + 6, &size, sizeof(size));
  bytes.resize(size);
  MapNews news;
  ReadMapRecords(bytes, &news);
  EXPECT_TRUE(news.pids.empty());
}

}  // namespace
}  // namespace proftrace
