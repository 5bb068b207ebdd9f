// Bytes of a terminal as keys.
#include "userspace/top/top_keys.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace proftrace {
namespace {

std::vector<TopKeyKind> KindsOf(const std::vector<TopKey>& keys) {
  std::vector<TopKeyKind> kinds;
  for (const TopKey& key : keys) kinds.push_back(key.kind);
  return kinds;
}

TEST(TopKeysTest, CharactersAndSequences) {
  TopKeyReader reader;
  const std::vector<TopKey> keys =
      reader.Read("q\x1b[A\x1bOB\x1b[5~\x1b[6~\x1b[H\x1b[4~\x1b[1;5A\r\x7f");
  EXPECT_TRUE(keys.at(0).Is('q'));
  EXPECT_EQ(KindsOf(keys),
            (std::vector<TopKeyKind>{TopKeyKind::kCharacter, TopKeyKind::kUp, TopKeyKind::kDown,
                                     TopKeyKind::kPageUp, TopKeyKind::kPageDown, TopKeyKind::kHome,
                                     TopKeyKind::kEnd, TopKeyKind::kUp, TopKeyKind::kEnter,
                                     TopKeyKind::kBackspace}));
  EXPECT_FALSE(reader.is_waiting());
}

TEST(TopKeysTest, ASequenceMayComeInPieces) {
  TopKeyReader reader;
  EXPECT_TRUE(reader.Read("\x1b").empty());
  EXPECT_TRUE(reader.is_waiting());
  EXPECT_TRUE(reader.Read("[").empty());
  EXPECT_EQ(KindsOf(reader.Read("B")), std::vector<TopKeyKind>{TopKeyKind::kDown});
  EXPECT_FALSE(reader.is_waiting());
}

TEST(TopKeysTest, AnEscapeThatNothingFollowsIsTheKey) {
  TopKeyReader reader;
  EXPECT_TRUE(reader.Read("\x1b").empty());
  EXPECT_EQ(KindsOf(reader.Flush()), std::vector<TopKeyKind>{TopKeyKind::kEscape});
  EXPECT_FALSE(reader.is_waiting());
  const std::vector<TopKey> keys = reader.Read("\x1bq");
  ASSERT_EQ(keys.size(), 2u);
  EXPECT_EQ(keys[0].kind, TopKeyKind::kEscape);
  EXPECT_TRUE(keys[1].Is('q'));
}

TEST(TopKeysTest, CharactersOfSeveralBytesMayComeInPieces) {
  TopKeyReader reader;
  EXPECT_TRUE(reader.Read("\xe6\xa8").empty());
  const std::vector<TopKey> keys = reader.Read("\xa1");
  ASSERT_EQ(keys.size(), 1u);
  EXPECT_EQ(keys[0].text, "模");
}

TEST(TopKeysTest, WhatIsNoTextIsLeftOut) {
  TopKeyReader reader;
  const std::vector<TopKey> keys =
      reader.Read(std::string("\x01\x00\xff\x9b\xc2\x85", 6) + "s\x1b[?25zx");
  ASSERT_EQ(keys.size(), 2u);
  EXPECT_TRUE(keys[0].Is('s'));
  EXPECT_TRUE(keys[1].Is('x'));
}

// However bytes are cut, the keys are those of all bytes at once; nothing waits for ever.
TEST(TopKeysTest, PiecesGiveTheSameKeys) {
  std::mt19937 random(3);
  const std::vector<std::string> parts = {"q",       "\x1b[A", "\x1bOB", "模",
                                          "\x1b[5~", "\x80",   "\n",     "é"};
  for (int round = 0; round < 300; ++round) {
    std::string bytes;
    for (int i = 0; i < 10; ++i) bytes += parts[random() % parts.size()];
    TopKeyReader whole;
    const std::vector<TopKey> expected = whole.Read(bytes);
    TopKeyReader reader;
    std::vector<TopKey> keys;
    for (size_t at = 0; at < bytes.size();) {
      const size_t length = 1 + random() % 3;
      for (TopKey& key : reader.Read(std::string_view(bytes).substr(at, length))) {
        keys.push_back(std::move(key));
      }
      at += length;
    }
    EXPECT_EQ(keys, expected);
  }
  TopKeyReader reader;
  reader.Read("\x1b[" + std::string(100, '1'));
  EXPECT_TRUE(reader.Read("q").back().Is('q'));
}

}  // namespace
}  // namespace proftrace
