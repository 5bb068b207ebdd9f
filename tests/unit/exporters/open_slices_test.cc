// Rows of a chrome trace, with their ends as programs compute them: ts + dur, in doubles.
#include "exporters/traces/open_slices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <vector>

#include "exporters/sinks/text_writer.h"

namespace proftrace {
namespace {

double Read(int64_t ns) {
  char text[kMaxNumberBytes + 1];
  *PutMicroseconds(text, ns) = '\0';
  return std::strtod(text, nullptr);
}

struct Row {
  int64_t start_ns;
  int64_t end_ns;
  int parent;  // index, -1 = none
  OpenSlices::Slice slice;
  double start_us() const { return Read(slice.ts_ns); }
  double end_us() const { return start_us() + Read(slice.duration_ns); }
};

// Rows that nest, many of which end with what is around them and begin where others end. Each takes
// a hundred times what a double tells apart there at least.
class RandomRows {
 public:
  RandomRows(uint32_t seed, int64_t base_ns, int64_t step_ns)
      : random_(seed), base_ns_(base_ns), shortest_ns_(100 * step_ns) {}

  std::vector<Row> Make() {
    Fill(-1, base_ns_, base_ns_ + 10'000 * shortest_ns_ + Below(3'000'000), 0);
    return rows_;
  }

 private:
  int64_t Below(int64_t end) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(end));
  }

  void Fill(int parent, int64_t from_ns, int64_t to_ns, int depth) {
    for (int i = 0; i < 4 && to_ns - from_ns >= 2 * shortest_ns_ && depth < 40; ++i) {
      const bool begins_too = i == 0 && Below(4) == 0;
      const int64_t start_ns =
          begins_too ? from_ns : from_ns + Below(to_ns - from_ns - shortest_ns_);
      const int64_t most_ns = to_ns - start_ns;
      const int64_t end_ns =
          Below(2) == 0 ? to_ns : start_ns + shortest_ns_ + Below(most_ns - shortest_ns_ + 1);
      rows_.push_back({start_ns, end_ns, parent, {}});
      if (rows_.size() < 800) Fill(static_cast<int>(rows_.size()) - 1, start_ns, end_ns, depth + 1);
      from_ns = Below(3) == 0 ? end_ns + Below(50) : end_ns;
    }
  }

  std::mt19937_64 random_;
  int64_t base_ns_;
  int64_t shortest_ns_;
  std::vector<Row> rows_;
};

class OpenSlicesTest : public testing::TestWithParam<int64_t> {};

TEST_P(OpenSlicesTest, EveryRowLiesInItsParentAndBesideItsSiblingsInDoubles) {
  const int64_t step_ns = std::max<int64_t>(1, GetParam() / (int64_t{1} << 52));
  int shorter = 0;
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    std::vector<Row> rows = RandomRows(seed, GetParam() + seed * 977, step_ns).Make();
    OpenSlices open;
    for (Row& row : rows) {
      const auto slice = open.Open(row.start_ns, row.end_ns);
      ASSERT_TRUE(slice.has_value());
      row.slice = *slice;
      const int64_t cut_ns = row.end_ns - row.start_ns - slice->duration_ns;
      shorter += cut_ns > 0 ? 1 : 0;
      ASSERT_GE(slice->duration_ns, 0);
      ASSERT_LE(cut_ns, 45 * step_ns) << "seed " << seed;
    }
    for (size_t i = 0; i < rows.size(); ++i) {
      for (int at = rows[i].parent; at >= 0; at = rows[static_cast<size_t>(at)].parent) {
        const Row& around = rows[static_cast<size_t>(at)];
        ASSERT_GE(rows[i].start_us(), around.start_us()) << "seed " << seed << ", row " << i;
        ASSERT_LE(rows[i].end_us(), around.end_us()) << "seed " << seed << ", row " << i;
      }
      if (i > 0 && rows[i - 1].end_ns <= rows[i].start_ns) {
        ASSERT_LE(rows[i - 1].end_us(), rows[i].start_us()) << "seed " << seed << ", row " << i;
      }
    }
  }
  EXPECT_GT(shorter, 0);  // else these rows try nothing
}

// From a trace's own beginning, up to a day after it, and as if there were no such beginning.
INSTANTIATE_TEST_SUITE_P(Bases, OpenSlicesTest,
                         testing::Values(int64_t{1'000'003}, int64_t{11'111'111'111},
                                         int64_t{86'399'999'999'999},
                                         int64_t{1'764'302'400'123'456'789}));

TEST(OpenSlicesOfOneTrackTest, ARowThatEndsAfterTheOneAroundItHasNoPlace) {
  OpenSlices open;
  ASSERT_TRUE(open.Open(100, 200).has_value());
  EXPECT_FALSE(open.Open(150, 201).has_value());
  EXPECT_TRUE(open.Open(150, 200).has_value());
  EXPECT_EQ(open.End(), 200);
  EXPECT_TRUE(open.Open(200, 300).has_value());
}

TEST(OpenSlicesOfOneTrackTest, RowsWithEndsOfTheirOwnKeepTheirTimes) {
  OpenSlices open;
  for (int64_t ns = 40'000'000'000'000; ns < 40'000'000'100'000; ns += 1'000) {
    const auto slice = open.Open(ns, ns + 900);
    ASSERT_TRUE(slice.has_value());
    EXPECT_EQ(slice->ts_ns, ns);
    EXPECT_EQ(slice->duration_ns, 900);
  }
}

}  // namespace
}  // namespace proftrace
