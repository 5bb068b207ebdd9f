#include "userspace/base/stretches.h"

#include <gmock/gmock.h>

#include <random>

#include "userspace/base/stable_hash.h"

namespace proftrace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Stretches, Union) {
  EXPECT_THAT(UnionOf({{5, 7}, {1, 3}, {3, 4}, {6, 9}, {20, 20}, {30, 25}}),
              ElementsAre(Stretch(1, 4), Stretch(5, 9)));
  EXPECT_THAT(UnionOf({}), IsEmpty());
}

TEST(Stretches, CommonAndLengthAreThoseOfTheSets) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<bool> sets[2] = {std::vector<bool>(100), std::vector<bool>(100)};
    Stretches unions[2];
    for (int set = 0; set < 2; ++set) {
      std::vector<Stretch> stretches;
      for (int i = 0; i < 10; ++i) {
        const int64_t begin = random() % 90;
        const int64_t end = begin + static_cast<int64_t>(random() % 10);
        stretches.emplace_back(begin, end);
        for (int64_t at = begin; at < end; ++at) sets[set][static_cast<size_t>(at)] = true;
      }
      unions[set] = UnionOf(stretches);
    }
    const Stretches common = CommonOf(unions[0], unions[1]);
    const auto from = static_cast<int64_t>(random() % 100);
    const int64_t to = from + static_cast<int64_t>(random() % (101 - static_cast<uint64_t>(from)));
    int64_t one = 0;
    int64_t both = 0;
    for (int64_t at = from; at < to; ++at) {
      const auto place = static_cast<size_t>(at);
      one += sets[0][place] ? 1 : 0;
      both += sets[0][place] && sets[1][place] ? 1 : 0;
    }
    EXPECT_EQ(LengthIn(unions[0], from, to), one);
    EXPECT_EQ(LengthIn(common, from, to), both);
  }
}

// Files have such names: another hash would ingest all inputs again.
TEST(StableHash, IsTheSameForEver) {
  EXPECT_EQ(StableHash().Add("rank 0").Add(7).Hex(), StableHash().Add("rank 0").Add(7).Hex());
  EXPECT_NE(StableHash().Add("ab").Add("c").Hex(), StableHash().Add("a").Add("bc").Hex());
  EXPECT_EQ(StableHash().Add("").Hex(), "4f2db50f124040cd");
}

}  // namespace
}  // namespace proftrace
