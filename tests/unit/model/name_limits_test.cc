#include "userspace/model/name_limits.h"

#include <gtest/gtest.h>

#include <string>

namespace proftrace {
namespace {

std::string Group(std::string_view name) { return GroupOfName(name).value_or("none"); }

TEST(GroupOfNameTest, EachNumberIsAStar) {
  EXPECT_EQ(Group("step 17"), "step *");
  EXPECT_EQ(Group("epoch 3, batch 0012"), "epoch *, batch *");
  EXPECT_EQ(Group("ProfilerStep#9"), "ProfilerStep#*");
  EXPECT_EQ(Group("lr=0.00125 wd=1e-4 beta=1.5E+10"), "lr=* wd=* beta=*");
  EXPECT_EQ(Group("/made/file_12.py"), "/made/file_*.py");
  EXPECT_EQ(Group("10.0.0.1:80->10.0.0.2:4711"), "*:*->*:*");
  EXPECT_EQ(Group("12"), "*");
}

TEST(GroupOfNameTest, IdentifiersAreNumbers) {
  EXPECT_EQ(Group("request deadbeef-cafe-babe-feed-0123456789ab"), "request *");
  EXPECT_EQ(Group("block 7fe0a2b4c8d0"), "block *");
  EXPECT_EQ(Group("Object at 0x7fe0a2b4"), "Object at *");
  EXPECT_EQ(Group("add2 conv2d"), "add* conv*d");
  EXPECT_EQ(Group("12345678-1234-1234-1234-12345678901"), "*-*-*-*-*");
}

TEST(GroupOfNameTest, NamesWithoutNumbersAreOfNone) {
  EXPECT_EQ(Group(""), "none");
  EXPECT_EQ(Group("forward"), "none");
  EXPECT_EQ(Group("deadbeef"), "none");
  EXPECT_EQ(Group("step *"), "none");
  EXPECT_EQ(Group("日本"), "none");
  EXPECT_EQ(Group("1.e-"), "*.e-");
}

}  // namespace
}  // namespace proftrace
