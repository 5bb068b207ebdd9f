#include "userspace/capture/records/record_blocks.h"

#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <vector>

namespace proftrace {
namespace {

void Add(RecordBlocks* blocks, uint32_t number, uint8_t words) {
  std::vector<std::byte> bytes(size_t{words} * 8);
  abi::pt_record head{};
  head.tid = number;
  head.words = words;
  std::memcpy(bytes.data(), &head, sizeof(head));
  blocks->Add(bytes);
}

TEST(RecordBlocks, GivesWholeRecordsInOrderAcrossBlocks) {
  RecordBlocks blocks;
  for (int round = 0; round < 3; ++round) {
    uint32_t added = 0;
    size_t bytes = 0;
    while (bytes < 3 * RecordBlocks::kBlockBytes + 100) {
      const auto words = static_cast<uint8_t>(3 + added % 253);
      Add(&blocks, added++, words);
      bytes += size_t{words} * 8;
    }
    EXPECT_EQ(blocks.bytes(), bytes);
    auto taken = blocks.Take();
    EXPECT_GE(taken.size(), 4u);
    EXPECT_EQ(blocks.bytes(), 0u);
    EXPECT_TRUE(blocks.Take().empty());
    uint32_t seen = 0;
    RecordBlocks::ForEach(taken, [&seen](std::span<const std::byte> record) {
      abi::pt_record head{};
      std::memcpy(&head, record.data(), sizeof(head));
      EXPECT_EQ(head.tid, seen);
      EXPECT_EQ(record.size(), 8 * (3 + seen % 253));
      ++seen;
    });
    EXPECT_EQ(seen, added);
    blocks.GiveBack(std::move(taken));
  }
}

TEST(RecordBlocks, WhatComesMovesNothing) {
  RecordBlocks blocks;
  Add(&blocks, 0, 3);
  auto first = blocks.Take();
  const std::byte* place = first.front().data();
  blocks.GiveBack(std::move(first));
  for (uint32_t i = 1; i < 300'000; ++i) Add(&blocks, i, 5);
  EXPECT_EQ(blocks.Take().front().data(), place);  // used again, and never moved
}

}  // namespace
}  // namespace proftrace
