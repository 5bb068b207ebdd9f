#include "userspace/cli/flight_options.h"

#include <gtest/gtest.h>

#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

TEST(ParseTriggerTest, TakesTheDocumentedForms) {
  const auto ratio = ParseTrigger("step>2.5x");
  ASSERT_TRUE(ratio.ok());
  EXPECT_EQ(ratio->kind, FlightTrigger::Kind::kStepRatio);
  EXPECT_DOUBLE_EQ(ratio->ratio, 2.5);
  EXPECT_EQ(ratio->text, "step>2.5x");
  const auto length = ParseTrigger("step>500ms");
  ASSERT_TRUE(length.ok());
  EXPECT_EQ(length->kind, FlightTrigger::Kind::kStepLength);
  EXPECT_EQ(length->length_ns, 500'000'000);
  EXPECT_EQ(ParseTrigger("step>1.5s")->length_ns, 1'500'000'000);
  EXPECT_EQ(ParseTrigger("step>2m")->length_ns, 120'000'000'000);
  EXPECT_EQ(ParseTrigger("exit")->kind, FlightTrigger::Kind::kExit);
  EXPECT_EQ(ParseTrigger("oom")->kind, FlightTrigger::Kind::kOutOfMemory);
}

TEST(ParseTriggerTest, RefusesNonsense) {
  for (const char* text : {"", "step", "step>", "step>x", "step>1x", "step>0.5x", "step>-2x",
                           "step>nanx", "step>infx", "step>1e9x", "step>2 x", "step>2xx", "step>2",
                           "step>0ms", "step<2x", "Exit", "exits", "oom ", "memory"}) {
    const auto trigger = ParseTrigger(text);
    EXPECT_FALSE(trigger.ok()) << text;
    EXPECT_EQ(ExitCodeOf(trigger.status()), ExitCode::kUsage) << text;
  }
}

FlightTrigger Trigger(const char* text) { return *ParseTrigger(text); }

TEST(MakeFlightOptionsTest, ChoosesWhatWasAskedFor) {
  FlightArguments arguments;
  EXPECT_FALSE(MakeFlightOptions(arguments, false)->has_value());
  arguments.window_s = 30;
  arguments.triggers = {Trigger("step>2x"), Trigger("exit")};
  const auto options = MakeFlightOptions(arguments, false);
  ASSERT_TRUE(options.ok());
  ASSERT_TRUE(options->has_value());
  EXPECT_EQ((*options)->window_ns, 30'000'000'000);
  EXPECT_EQ((*options)->most_bytes, size_t{256} << 20);
  EXPECT_EQ((*options)->triggers.size(), 2u);
  EXPECT_TRUE((*options)->WatchesSteps());
}

TEST(MakeFlightOptionsTest, ATriggerOfMemoryNeedsMemory) {
  FlightArguments arguments;
  arguments.window_s = 30;
  arguments.triggers = {Trigger("oom")};
  EXPECT_EQ(ExitCodeOf(MakeFlightOptions(arguments, false).status()), ExitCode::kUsage);
  EXPECT_TRUE(MakeFlightOptions(arguments, true).ok());
}

TEST(FlightValuesTest, WindowsAndMemoryHaveLimits) {
  EXPECT_EQ(*ParseWindow("30s"), 30);
  EXPECT_EQ(ExitCodeOf(ParseWindow("soon").status()), ExitCode::kUsage);
  EXPECT_EQ(ExitCodeOf(ParseWindow("2000m").status()), ExitCode::kUsage);
  EXPECT_EQ(*ParseFlightMemory("64M"), uint64_t{64} << 20);
  EXPECT_EQ(ExitCodeOf(ParseFlightMemory("1M").status()), ExitCode::kUsage);
}

}  // namespace
}  // namespace proftrace
