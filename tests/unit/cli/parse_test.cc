#include <gtest/gtest.h>

#include <set>

#include "userspace/base/exit_status.h"
#include "userspace/cli/parse.h"
#include "userspace/cli/result_directory.h"
#include "userspace/cli/result_name.h"

namespace proftrace {
namespace {

TEST(ParseDurationTest, TakesTheDocumentedUnits) {
  EXPECT_DOUBLE_EQ(*ParseDuration("10s"), 10);
  EXPECT_DOUBLE_EQ(*ParseDuration("10"), 10);
  EXPECT_DOUBLE_EQ(*ParseDuration("250ms"), 0.25);
  EXPECT_DOUBLE_EQ(*ParseDuration("2m"), 120);
  EXPECT_DOUBLE_EQ(*ParseDuration("2h"), 7200);
  EXPECT_DOUBLE_EQ(*ParseDuration("1.5s"), 1.5);
}

TEST(ParseDurationTest, RefusesNonsense) {
  for (const char* text :
       {"", "s", "ten", "10x", "-1s", "0s", "nan", "inf", "1e300s", "10 s", "1s2"}) {
    const auto result = ParseDuration(text);
    EXPECT_FALSE(result.ok()) << text;
    EXPECT_EQ(ExitCodeOf(result.status()), ExitCode::kUsage) << text;
  }
}

TEST(ParseFrequencyTest, IsThePeriodInNanoseconds) {
  EXPECT_EQ(*ParseFrequency("100Hz"), 10'000'000);
  EXPECT_EQ(*ParseFrequency("99"), 10'101'010);
  EXPECT_EQ(*ParseFrequency("1kHz"), 1'000'000);
  EXPECT_EQ(*ParseFrequency("1"), 1'000'000'000);
  for (const char* text : {"", "Hz", "0", "0.5Hz", "-1", "nan", "inf", "11kHz", "99 Hz", "99hz"}) {
    const auto result = ParseFrequency(text);
    EXPECT_FALSE(result.ok()) << text;
    EXPECT_EQ(ExitCodeOf(result.status()), ExitCode::kUsage) << text;
  }
}

TEST(ParsePercentTest, IsMoreThanNothingAndLessThanAll) {
  EXPECT_DOUBLE_EQ(*ParsePercent("5%"), 5);
  EXPECT_DOUBLE_EQ(*ParsePercent("5"), 5);
  EXPECT_DOUBLE_EQ(*ParsePercent("0.5%"), 0.5);
  EXPECT_DOUBLE_EQ(*ParsePercent("99.9%"), 99.9);
  for (const char* text :
       {"", "%", "0", "0%", "-1%", "100", "100%", "1e9%", "nan", "inf", "5 %", "5%%", "five"}) {
    const auto result = ParsePercent(text);
    EXPECT_FALSE(result.ok()) << text;
    EXPECT_EQ(ExitCodeOf(result.status()), ExitCode::kUsage) << text;
  }
}

TEST(ParseInstantTest, TakesTheThreeForms) {
  constexpr int64_t kNow = 1'795'310'695'018'600'000;
  EXPECT_EQ(*ParseInstant("+5s", kNow), kNow + 5'000'000'000);
  EXPECT_EQ(*ParseInstant("/10s", kNow), 1'795'310'700'000'000'000);
  EXPECT_EQ(*ParseInstant("/1m", 60'000'000'000), 120'000'000'000);
  EXPECT_EQ(*ParseInstant("1970-01-01T00:01:00Z", kNow), 60'000'000'000);
  EXPECT_EQ(*ParseInstant("1970-01-01T01:01:00.25+01:00", kNow), 60'250'000'000);
}

TEST(ParseInstantTest, RefusesNonsense) {
  for (const char* text :
       {"", "+", "/", "/0s", "+-1s", "tomorrow", "2026-11-22", "5s", "12:00", "/0.0000000001s"}) {
    const auto result = ParseInstant(text, 1);
    EXPECT_FALSE(result.ok()) << text;
    EXPECT_EQ(ExitCodeOf(result.status()), ExitCode::kUsage) << text;
  }
}

TEST(ParseSizeTest, TakesPowersOfTwoUnits) {
  EXPECT_EQ(*ParseSize("4096"), 4096u);
  EXPECT_EQ(*ParseSize("64K"), 65536u);
  EXPECT_EQ(*ParseSize("32M"), 32u << 20);
  EXPECT_EQ(*ParseSize("1G"), 1u << 30);
}

TEST(ParseSizeTest, RefusesNonsense) {
  for (const char* text : {"", "K", "0", "-1", "4k", "99999999999999999999", "1T", "5000000000G"}) {
    EXPECT_FALSE(ParseSize(text).ok()) << text;
  }
}

TEST(WhyNoPidTest, TakesDigitsAlone) {
  for (const char* text : {"1", "4711", "4194304"}) EXPECT_EQ(WhyNoPid(text), "") << text;
  for (const char* text :
       {"", "0", "-1", "+1", "0x10", "021431", "1 ", "4194305", "99999999999", "self", "4711.0"}) {
    EXPECT_NE(WhyNoPid(text), "") << text;
  }
}

TEST(ParseKeyValueTest, TakesTheFirstEqualsSign) {
  EXPECT_EQ(ParseKeyValue("a=b=c")->second, "b=c");
  EXPECT_EQ(ParseKeyValue("a=")->second, "");
  EXPECT_FALSE(ParseKeyValue("a").ok());
  EXPECT_FALSE(ParseKeyValue("=b").ok());
}

TEST(DefaultResultNameTest, HoldsNoCharacterThatAPathWouldMind) {
  const std::string name = DefaultResultName("../a b\n;", {"../h", std::nullopt, Pid{7}, 0});
  EXPECT_TRUE(name.starts_with("proftrace-..-a-b---..-h-7-2")) << name;
  EXPECT_EQ(name.find('/'), std::string::npos);
}

// On storage that all hosts share, containers have the same PIDs, and a restart comes soon.
TEST(DefaultResultNameTest, HostsRanksAndAttemptsHaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const char* host : {"node1", "node2"}) {
    for (const std::optional<int64_t> rank : {std::optional<int64_t>(), {0}, {1}, {11}}) {
      for (const uint32_t attempt : {0U, 1U}) {
        const std::string name = DefaultResultName("python3", {host, rank, Pid{47}, attempt});
        EXPECT_TRUE(names.insert(name.substr(0, name.rfind('-'))).second) << name;
      }
    }
  }
  EXPECT_TRUE(names.contains("proftrace-python3-node1-47"));
  EXPECT_TRUE(names.contains("proftrace-python3-node2-rank11-attempt1-47"));
}

TEST(ResultNameTest, HostsRanksAndAttemptsOfOneJobHaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const char* host : {"node1", "node2"}) {
    for (const int64_t rank : {0, 1, 11}) {
      for (const uint32_t attempt : {0U, 1U}) {
        const auto name = ResultNameOf("/shared/run7/%h-%r-%p-%a", {host, rank, Pid{47}, attempt});
        ASSERT_TRUE(name.ok()) << name.status();
        EXPECT_TRUE(names.insert(*name).second) << *name;
      }
    }
  }
  EXPECT_TRUE(names.contains("/shared/run7/node2-11-47-1"));
}

TEST(ResultNameTest, WhatIsNotKnownIsSaidAndAHostLeadsNowhereElse) {
  EXPECT_EQ(*ResultNameOf("run-%h-%r", {"../a/b", std::nullopt, Pid{7}, 0}), "run-..-a-b-none");
  EXPECT_EQ(*ResultNameOf("100%%", {}), "100%");
  EXPECT_EQ(*ResultNameOf("plain", {}), "plain");
  for (const char* wrong : {"run-%", "run-%x", "%%%"}) {
    const auto name = ResultNameOf(wrong, {});
    EXPECT_EQ(ExitCodeOf(name.status()), ExitCode::kUsage) << wrong;
  }
}

}  // namespace
}  // namespace proftrace
