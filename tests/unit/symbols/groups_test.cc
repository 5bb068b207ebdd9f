// Process groups in a made-up heap.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "symbols/plan/process_groups.h"
#include "symbols/torch/python_groups.h"
#include "tests/unit/symbols/fake_memory.h"

namespace proftrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kGloo = 0x7f0000001010;
constexpr uint64_t kNccl = 0x7f0000002010;
constexpr size_t kObjectBytes = 128;

class ProcessGroupsTest : public ::testing::Test {
 protected:
  // As c10d::Backend of 2.5 and later lies in memory.
  uint64_t AddObject(uint64_t vtable, uint64_t references, int rank, int size,
                     const std::string& name, const std::string& description,
                     bool old_abi = false) {
    const uint64_t object = heap_.address + heap_.bytes;
    const uint8_t zeros[kObjectBytes] = {};
    memory_.Put(object, zeros, sizeof(zeros));
    memory_.PutWord(object, vtable);
    memory_.PutWord(object + 8, references);
    memory_.Put(object + 16, &rank, sizeof(rank));
    memory_.Put(object + 20, &size, sizeof(size));
    if (old_abi) {
      memory_.PutOldString(object + 32, name);
      memory_.PutOldString(object + 40, description);
    } else {
      memory_.PutString(object + 32, name);
      memory_.PutString(object + 64, description);
    }
    heap_.bytes += kObjectBytes;
    return object;
  }

  std::vector<ProcessGroup> Find(const char* version = "2.11.0", bool old_abi = false) {
    std::vector<ProcessGroup> groups;
    for (FoundGroup& found :
         FindWithCounters({{kGloo, "gloo"}, {kNccl, "nccl"}}, version, old_abi)) {
      EXPECT_NE(found.group.address, 0u);
      found.group.address = 0;
      groups.push_back(std::move(found.group));
    }
    return groups;
  }

  std::vector<FoundGroup> FindWithCounters(const std::vector<GroupClass>& classes,
                                           const char* version = "2.11.0", bool old_abi = false) {
    return FindGroups(memory_, std::span(&heap_, 1), classes, GroupLayoutOf(version), old_abi);
  }

  FakeMemory memory_;
  MemoryRange heap_{0x10000, 0};
};

TEST_F(ProcessGroupsTest, ReadsEachGroupOnceInOrderOfItsName) {
  AddObject(kNccl, 1, 3, 8, "10", "rows");
  AddObject(kGloo, 2, 3, 8, "2", "");
  AddObject(kGloo, 5, 11, 16, "0", "default_pg");
  AddObject(kGloo, 5, 11, 16, "0", "default_pg");
  const std::vector<ProcessGroup> groups = Find();
  EXPECT_THAT(groups, ElementsAre(ProcessGroup{"0", "default_pg", "gloo", 11, 16},
                                  ProcessGroup{"2", "", "gloo", 3, 8},
                                  ProcessGroup{"10", "rows", "nccl", 3, 8}));
  EXPECT_EQ(DefaultGroup(groups), &groups[0]);
}

TEST_F(ProcessGroupsTest, CountsCollectivesWhereTheBackendDoes) {
  memory_.PutWord(AddObject(kGloo, 1, 0, 2, "0", "default_pg") + 96, uint64_t{7} << 32 | 41);
  memory_.PutWord(AddObject(kNccl, 1, 0, 2, "1", "") + 96, (uint64_t{1} << 40) + 2);
  AddObject(kGloo, 1, 0, 2, "0", "default_pg");  // a copy that has begun none
  const std::vector<FoundGroup> found =
      FindWithCounters({{kGloo, "gloo", {96, 4}}, {kNccl, "nccl", {96, 8}}});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].entered, 41u);
  EXPECT_EQ(found[1].entered, (uint64_t{1} << 40) + 2);
  EXPECT_EQ(FindWithCounters({{kGloo, "gloo"}})[0].entered, std::nullopt);
}

TEST(GroupCounterTest, IsReadFromTheCodeThatReturnsIt) {
  using Code = std::vector<uint8_t>;
  const auto of = [](const Code& code) {
    const GroupCounter counter = CounterOfCode(code);
    return std::pair(counter.offset, counter.bytes);
  };
  const auto none = std::pair(0u, 0u);
  // gloo's nextTag() in 1.13 and 2.11; NCCL's getSequenceNumberForGroup() in 2.11.
  EXPECT_EQ(of({0x8b, 0x87, 0xac, 0, 0, 0, 0x8d, 0x50, 0x01}), std::pair(0xacu, 4u));
  EXPECT_EQ(of({0x8b, 0x87, 0xd4, 0, 0, 0, 0x8d, 0x50, 0x01}), std::pair(0xd4u, 4u));
  EXPECT_EQ(of({0x48, 0x8b, 0x87, 0xe8, 0x03, 0, 0, 0xc3}), std::pair(0x3e8u, 8u));
  EXPECT_EQ(of({0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8b, 0x47, 0x40, 0xc3, 0, 0, 0}),
            std::pair(0x40u, 8u));
  // gloo's nextTag() in 2.15, which checks the object first.
  const Code checked = {0x53, 0x48, 0x89, 0xfb, 0xe8, 0x57, 0xac, 0x62,
                        0xfa, 0x8b, 0x83, 0xf4, 0,    0,    0,    0x8d};
  EXPECT_EQ(of(checked), std::pair(0xf4u, 4u));
  Code unkept = checked;
  unkept[3] = 0xf3;  // of rsi
  EXPECT_EQ(of(unkept), none);
  Code of_rdi = checked;
  of_rdi[10] = 0x87;  // which the call may have changed
  EXPECT_EQ(of(of_rdi), none);
  // NCCL's of 1.13, which asks first whether there is a number; and what is no load of rdi's.
  EXPECT_EQ(of({0x80, 0x7f, 0x20, 0, 0x75, 0x0a, 0x31, 0xc0}), none);
  EXPECT_EQ(of({0x8b, 0x86, 0xac, 0, 0, 0, 0x8d, 0x50}), none);
  EXPECT_EQ(of({0x8b, 0x87, 0, 0, 0, 0x7f, 0x8d, 0x50}), none);  // far outside of any object
  EXPECT_EQ(of({0x8b, 0x87, 0xac}), none);
  EXPECT_EQ(of({}), none);
}

TEST_F(ProcessGroupsTest, ReadsTheOlderStrings) {
  AddObject(kGloo, 1, 1, 2, "0", "default_pg", /*old_abi=*/true);
  EXPECT_THAT(Find("2.5.1+cu124", /*old_abi=*/true),
              ElementsAre(ProcessGroup{"0", "default_pg", "gloo", 1, 2}));
  // They had no description yet.
  EXPECT_THAT(Find("2.3.1+cu121", /*old_abi=*/true),
              ElementsAre(ProcessGroup{"0", "", "gloo", 1, 2}));
}

TEST_F(ProcessGroupsTest, LeavesOutWhatDoesNotHoldTogether) {
  AddObject(kGloo, 0, 0, 2, "0", "freed");
  AddObject(kGloo, uint64_t{1} << 31, 0, 2, "0", "no count");
  AddObject(kGloo, 1, -1, 2, "0", "negative");
  AddObject(kGloo, 1, 2, 2, "0", "beyond its size");
  AddObject(kGloo, 1, 0, 2'000'000'000, "0", "too many");
  AddObject(kGloo, 1, 0, 2, "\x01\xff", "no text");
  const uint64_t wild = AddObject(kGloo, 1, 0, 2, "0", "wild string");
  memory_.PutWord(wild + 32, ~uint64_t{0} - 4);
  const uint64_t long_name = AddObject(kGloo, 1, 0, 2, "0", "endless");
  memory_.PutWord(long_name + 40, ~uint64_t{0});
  AddObject(0x7f0000003010, 1, 0, 2, "0", "another class");
  EXPECT_THAT(Find(), IsEmpty());
}

TEST_F(ProcessGroupsTest, AnObjectAtTheEndOfTheHeapIsNotReadBeyondIt) {
  memory_.PutWord(0x20000, kGloo);
  memory_.PutWord(0x20008, 1);
  heap_ = MemoryRange{0x20000, 16};
  EXPECT_THAT(Find(), IsEmpty());
}

TEST_F(ProcessGroupsTest, AHeapThatHasGoneGivesNothing) {
  heap_ = MemoryRange{0x900000, 1 << 22};
  EXPECT_THAT(Find(), IsEmpty());
}

constexpr uint64_t kMiB = uint64_t{1} << 20;

Mapping Anonymous(uint64_t start, uint64_t bytes, const char* path = "") {
  Mapping mapping;
  mapping.start = start;
  mapping.end = start + bytes;
  mapping.path = path;
  return mapping;
}

TEST(HeapRangesTest, OfALargeHeapBothEndsAreLookedThrough) {
  const auto ranges = HeapRanges({Anonymous(0x10000, 4096 * kMiB, "[heap]")});
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].address, 0x10000u);
  EXPECT_GE(ranges[0].bytes, 128 * kMiB);
  EXPECT_EQ(ranges[1].address + ranges[1].bytes, 0x10000 + 4096 * kMiB);
  EXPECT_LE(ranges[0].bytes + ranges[1].bytes, 1024 * kMiB);
}

TEST(HeapRangesTest, WhatIsLikelierComesFirstAndLargeOnesNotWhole) {
  Mapping closed = Anonymous(0x1000, 512 * kMiB);
  closed.accessible = false;
  Mapping code = Anonymous(0x300000000, kMiB);
  code.executable = true;
  const auto ranges = HeapRanges(
      {closed, Anonymous(0x100000000, 8192 * kMiB), Anonymous(0x400000000, 64 * kMiB), code,
       Anonymous(0x500000000, kMiB, "[heap]"), Anonymous(0x600000000, kMiB, "/f")});
  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_EQ(ranges[0].address, 0x500000000u);
  EXPECT_EQ(ranges[1].address, 0x400000000u);
  EXPECT_EQ(ranges[1].bytes, 64 * kMiB);
  EXPECT_EQ(ranges[2].address, 0x100000000u);
  EXPECT_GE(ranges[2].bytes, 64 * kMiB);
  EXPECT_LT(ranges[2].bytes, 1024 * kMiB);
}

TEST(HeapRangesTest, AltogetherThereIsALimit) {
  std::vector<Mapping> many;
  for (uint64_t i = 0; i < 100; ++i) many.push_back(Anonymous(i << 36, 60 * kMiB));
  uint64_t bytes = 0;
  for (const MemoryRange& range : HeapRanges(many)) bytes += range.bytes;
  EXPECT_GE(bytes, 512 * kMiB);
  EXPECT_LE(bytes, 1024 * kMiB);
}

TEST(GroupLayoutTest, UnknownVersionsHaveNone) {
  for (const char* version : {"", "2", "1.12.1", "2.16.0", "3.0", "x.y"}) {
    EXPECT_EQ(GroupLayoutOf(version).rank, 0u) << version;
  }
  EXPECT_TRUE(GroupLayoutOf("2.0.1+cu117").is_base);
  EXPECT_TRUE(GroupLayoutOf("2.1.2+cu121").is_base);
  EXPECT_EQ(GroupLayoutOf("2.2.2+cu121").name, 40u);
  EXPECT_EQ(GroupLayoutOf("1.13.0a0").name, 0u);
  EXPECT_FALSE(NamesGroupThreads("2.8.0"));
  EXPECT_TRUE(NamesGroupThreads("2.15.0+cu132"));
}

TEST(DefaultGroupTest, WithoutNamesItIsTheLargest) {
  EXPECT_EQ(DefaultGroup({}), nullptr);
  const std::vector<ProcessGroup> groups = {{"", "", "", 0, 2}, {"", "", "", 3, 4}};
  EXPECT_EQ(DefaultGroup(groups), &groups[1]);
}

// A process that is rank 2 of four, and rank 1 of the group of ranks 0 and 2.
std::vector<ProcessGroup> OfRankTwo() {
  ProcessGroup all{.name = "0", .rank = 2, .size = 4};
  ProcessGroup even{.name = "3", .rank = 1, .size = 2};
  return {all, even};
}

TEST(ProcessGroupMembersTest, AreThoseOfTheGroupOfThatName) {
  const PythonGroups python{.groups = {{"3", "cpu:gloo", {0, 2}}, {"0", "", {0, 1, 2, 3}}}};
  std::vector<ProcessGroup> groups = OfRankTwo();
  EXPECT_EQ(AddMembers(python, &groups), 2u);
  EXPECT_THAT(groups[0].ranks, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(groups[1].ranks, ElementsAre(0, 2));
  EXPECT_EQ(groups[1].backend_config, "cpu:gloo");
}

// 1.13 keeps no name in the object: Python's variables tell which of them it is.
TEST(ProcessGroupMembersTest, WithoutNamesThePlaceTellsTheGroup) {
  const PythonGroups python{
      .groups = {{"2", "", {0, 2}, 0x300}, {"0", "", {0, 1, 2, 3}, 0x100}, {"1", "", {1, 2}, 0}}};
  ProcessGroup all{.rank = 2, .size = 4};
  all.address = 0x100;
  ProcessGroup even{.rank = 1, .size = 2};
  even.address = 0x300;
  ProcessGroup stale = even;
  stale.address = 0x200;
  std::vector<ProcessGroup> groups = {all, stale, even};
  EXPECT_EQ(AddMembers(python, &groups), 2u);
  EXPECT_EQ(groups[0].name, "0");
  EXPECT_EQ(groups[1].name, "");
  EXPECT_THAT(groups[1].ranks, IsEmpty());
  EXPECT_EQ(groups[2].name, "2");
  EXPECT_THAT(groups[2].ranks, ElementsAre(0, 2));
}

TEST(ProcessGroupMembersTest, OfAnotherSizeOrWithAnotherOwnRankAreNotTaken) {
  for (const std::vector<int>& ranks : {std::vector{0, 2, 3}, {2, 0}, {0, 1}, {}}) {
    std::vector<ProcessGroup> groups = OfRankTwo();
    EXPECT_EQ(AddMembers({.groups = {{"3", "cpu:gloo", ranks}}}, &groups), 0u);
    EXPECT_THAT(groups[1].ranks, IsEmpty());
    EXPECT_THAT(groups[1].backend_config, IsEmpty());
  }
}

TEST(ProcessGroupMembersTest, AreNotKnownWithoutTheGroupOfAll) {
  std::vector<ProcessGroup> groups = {OfRankTwo()[1]};
  EXPECT_EQ(AddMembers({.groups = {{"3", "", {0, 2}}}}, &groups), 0u);
}

}  // namespace
}  // namespace proftrace
