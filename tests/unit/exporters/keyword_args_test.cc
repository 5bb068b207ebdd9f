// Keyword values as items of a row's args.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "exporters/args/keyword_args.h"

namespace proftrace {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(KeywordArgsTest, AreWrittenAsTorchWritesThem) {
  EXPECT_EQ(KeywordArgs({}), "");
  EXPECT_EQ(KeywordArgs({{"a", int64_t{-1}}, {"b", true}, {"c", std::string("x\\y\nz")}}),
            R"("a": -1, "b": true, "c": "x/yz")");
  EXPECT_EQ(KeywordArgs({{"none", std::string("with \"quotes\"")}, {"null", std::monostate()}}),
            R"("none": "None", "null": "NULL")");
  EXPECT_EQ(KeywordArgs({{"list", std::vector<std::string>{"a\"b", "c"}}, {"e", 1e-7}}),
            R"("list": ["a\"b", "c"], "e": 1e-07)");
}

TEST(KeywordArgsTest, AreAlwaysJson) {
  EXPECT_EQ(KeywordArgs({{"a", 3.0}, {"b", -kInfinity}, {"c\"", 0.5}}),
            R"("a": 3.0, "b": "-inf", "c\"": 0.5)");
}

TEST(KeywordArgsTest, WhatTorchLeavesOutAndWhatRowsHaveAlreadyIsLeftOut) {
  EXPECT_EQ(KeywordArgs({{"stream", std::string("x")}, {"Ev Idx", int64_t{1}}}), "");
  EXPECT_EQ(KeywordArgs({{"empty", std::string()}, {"bytes", int64_t{1}}}), R"("bytes": 1)");
  EXPECT_EQ(KeywordArgs({{"stream", int64_t{7}}}), R"("stream": 7)");
}

}  // namespace
}  // namespace proftrace
