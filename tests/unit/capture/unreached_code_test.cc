#include "userspace/capture/plans/unreached_code.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

namespace proftrace {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kBase = 0x7000'0000'0000;
constexpr uint64_t kDevice = 8;
constexpr uint64_t kInode = 77;

// A library with code in the pages 1 to 4 of its file, and a point in the middle of each.
class UnreachedCodeTest : public ::testing::Test {
 protected:
  class Memory final : public TargetMemory {
   public:
    bool Read(uint64_t address, void* buffer, size_t bytes) const override {
      const auto found = bytes_.find(address);
      if (bytes != 1 || found == bytes_.end()) return false;
      std::memcpy(buffer, &found->second, 1);
      return true;
    }
    std::map<uint64_t, uint8_t> bytes_;
  };

  UnreachedCodeTest() {
    module_.name = "libtorch_cpu.so";
    module_.file = {kDevice, kInode};
    for (uint64_t page = 1; page <= 4; ++page) {
      ProbePoint point;
      point.file_offset = OffsetOf(page);
      point.cookie = page;
      module_.points.push_back(point);
      memory_.bytes_[AddressOf(page)] = 0xcc;
    }
    AddMapping(0, 1, false);
    AddMapping(5, 6, false);
  }

  static uint64_t OffsetOf(uint64_t page) { return page * kPage + 16; }
  static uint64_t AddressOf(uint64_t page) { return kBase + OffsetOf(page); }

  Mapping& AddMapping(uint64_t first, uint64_t end, bool executable) {
    Mapping mapping;
    mapping.start = kBase + first * kPage;
    mapping.end = kBase + end * kPage;
    mapping.file_offset = first * kPage;
    mapping.executable = executable;
    mapping.device = kDevice;
    mapping.inode = kInode;
    mapping.path = "/libtorch_cpu.so";
    return mappings_.emplace_back(mapping);
  }
  void AddAnonymousCode(uint64_t first, uint64_t end) {
    Mapping& mapping = AddMapping(first, end, true);
    mapping.device = mapping.inode = mapping.file_offset = 0;
    mapping.path.clear();
  }

  std::vector<UnreachedCode> Find(const AttachReport& report = {}) const {
    const auto read_file = [this](const ModulePlan&, uint64_t, void* buffer, size_t bytes) {
      std::memcpy(buffer, file_bytes_.data(), bytes);
      return true;
    };
    return FindUnreachedCode(mappings_, memory_, read_file, {module_}, report);
  }

  std::vector<Mapping> mappings_;
  Memory memory_;
  ModulePlan module_;
  std::vector<uint8_t> file_bytes_ = {0x0f, 0x1f, 0x44, 0x00, 0x00};
};

TEST_F(UnreachedCodeTest, BreakpointsAreProbes) {
  AddMapping(1, 5, true);
  EXPECT_TRUE(Find().empty());
}

TEST_F(UnreachedCodeTest, CallsInPlaceOfANopAreProbesToo) {
  AddMapping(1, 5, true);
  memory_.bytes_[AddressOf(2)] = 0xe8;
  EXPECT_TRUE(Find().empty());
  file_bytes_ = {0xe8, 0, 0, 0, 0};
  ASSERT_EQ(Find().size(), 1u);
}

TEST_F(UnreachedCodeTest, CodeOfTheFileWithoutABreakpoint) {
  AddMapping(1, 5, true);
  memory_.bytes_[AddressOf(2)] = 0x55;
  memory_.bytes_[AddressOf(3)] = 0x55;
  const std::vector<UnreachedCode> found = Find();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].without, 2u);
  EXPECT_EQ(found[0].unreached(), 2u);
  const std::string text = DescribeUnreachedCode(found).value_or("");
  EXPECT_TRUE(text.starts_with("2 of 4 places of libtorch_cpu.so cannot be recorded: ")) << text;
}

TEST_F(UnreachedCodeTest, EachMappingOfTheCodeCounts) {
  AddMapping(1, 5, true);
  Mapping& second = AddMapping(1, 5, true);
  second.start += 64 * kPage;
  second.end += 64 * kPage;
  memory_.bytes_[AddressOf(1) + 64 * kPage] = 0x55;
  ASSERT_EQ(Find().size(), 1u);
}

TEST_F(UnreachedCodeTest, TextThatWasCopiedToAnonymousMemory) {
  AddMapping(1, 2, true);
  AddAnonymousCode(2, 4);
  AddMapping(4, 5, true);
  const std::vector<UnreachedCode> found = Find();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].not_of_file, 2u);
  EXPECT_EQ(found[0].unmapped, 0u);
}

TEST_F(UnreachedCodeTest, AllOfTheTextWasCopied) {
  AddAnonymousCode(1, 5);
  ASSERT_EQ(Find().size(), 1u);
  EXPECT_EQ(Find()[0].not_of_file, 4u);
}

TEST_F(UnreachedCodeTest, CodeThatIsGone) {
  AddMapping(1, 3, true);
  ASSERT_EQ(Find().size(), 1u);
  EXPECT_EQ(Find()[0].unmapped, 2u);
}

TEST_F(UnreachedCodeTest, CodeThatMovedIsWhatLiesElsewhere) {
  AddMapping(1, 2, true);
  AddAnonymousCode(2, 3);
  AddMapping(4, 5, true);
  memory_.bytes_[AddressOf(1)] = 0x55;  // a budget has taken this probe out
  const std::vector<UnreachedCode> moved = FindMovedCode(mappings_, {module_});
  ASSERT_EQ(moved.size(), 1u);
  EXPECT_EQ(moved[0].not_of_file, 1u);
  EXPECT_EQ(moved[0].unreached(), 1u);
}

TEST_F(UnreachedCodeTest, WhatTheKernelRefusedIsToldAlready) {
  AddMapping(1, 5, true);
  memory_.bytes_[AddressOf(2)] = 0x55;
  AttachReport report;
  report.refused.push_back({"libtorch_cpu.so", OffsetOf(2), 22});
  EXPECT_TRUE(Find(report).empty());
  memory_.bytes_[AddressOf(3)] = 0x55;
  const std::vector<UnreachedCode> found = Find(report);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].unreached(), 1u);
  EXPECT_EQ(found[0].refused, 1u);
  EXPECT_EQ(found[0].accepted(), found[0].points - 1);
}

TEST_F(UnreachedCodeTest, WhatCannotBeReadIsNotDoubted) {
  AddMapping(1, 5, true);
  memory_.bytes_.erase(AddressOf(3));
  EXPECT_TRUE(Find().empty());
}

}  // namespace
}  // namespace proftrace
