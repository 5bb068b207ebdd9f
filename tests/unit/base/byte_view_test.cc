// Bytes from outside, at offsets from outside.
#include "userspace/base/byte_view.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

namespace proftrace {
namespace {

TEST(ByteViewTest, GivesWhatLiesInside) {
  const std::array<uint8_t, 5> bytes = {1, 2, 3, 4, 5};
  const ByteView view(bytes);
  EXPECT_EQ(view.Get<uint8_t>(4), 5);
  EXPECT_EQ(view.Get<uint32_t>(1), 0x05040302u);
  EXPECT_EQ(view.From(3).size(), 2u);
  EXPECT_EQ(view.From(1, 2).Get<uint16_t>(0), 0x0302);
  EXPECT_EQ(ByteView(std::vector<uint64_t>{7, 8}).size(), 16u);
}

TEST(ByteViewTest, NothingLiesOutsideWhateverTheOffsetIs) {
  const std::array<uint8_t, 8> bytes = {};
  const ByteView view(bytes);
  for (const uint64_t offset :
       {uint64_t{1}, uint64_t{8}, uint64_t{1} << 32, UINT64_MAX - 7, UINT64_MAX}) {
    EXPECT_EQ(view.Get<uint64_t>(offset), std::nullopt) << offset;
    EXPECT_FALSE(view.Holds(offset, 8)) << offset;
  }
  EXPECT_FALSE(view.Holds(4, UINT64_MAX - 2));
  EXPECT_EQ(view.From(9).size(), 0u);
  EXPECT_EQ(ByteView(nullptr, 0).Get<uint8_t>(0), std::nullopt);
}

}  // namespace
}  // namespace proftrace
