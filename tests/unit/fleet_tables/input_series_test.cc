#include "userspace/fleet_tables/input_series.h"

#include <gmock/gmock.h>

#include <utility>

namespace proftrace {
namespace {

using testing::ElementsAre;

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kUnix = 1'700'000'000 * kSecond;

// A window of ten seconds that ends at `end_s`, with a step a second and a call in each.
std::unique_ptr<InputFacts> Window(int64_t end_s, int64_t cut_ns = 0) {
  auto facts = std::make_unique<InputFacts>();
  facts->id = "series";
  facts->window_end_s = end_s;
  facts->unix_offset_ns = kUnix;
  facts->lost = 1;
  SourceFacts& source = facts->source;
  source.first_ns = (end_s - 10) * kSecond;
  source.last_ns = end_s * kSecond;
  source.events = 5;
  source.groups = {{"world", {0, 1}}};
  source.group_descriptions = {""};
  for (int64_t i = 0; i < 10; ++i) {
    StepRow step;
    step.is_main = true;
    step.step = i;
    step.start_ns = kUnix + *source.first_ns + i * kSecond + cut_ns;
    step.duration_ns = kSecond;
    // The last one is cut by the window's end.
    if (cut_ns == 0 || i < 9) facts->steps.push_back(step);
    SourceCall call;
    call.call.entered_ns = call.call.left_ns = step.start_ns - kUnix;
    source.calls.push_back(call);
  }
  return facts;
}

std::unique_ptr<InputFacts> JoinOne(std::vector<std::unique_ptr<InputFacts>> windows) {
  auto joined = JoinSeries(std::move(windows));
  EXPECT_EQ(joined.size(), 1);
  return std::move(joined.front());
}

template <typename... Windows>
std::vector<std::unique_ptr<InputFacts>> ListOf(Windows... windows) {
  std::vector<std::unique_ptr<InputFacts>> list;
  (list.push_back(std::move(windows)), ...);
  return list;
}

std::vector<int64_t> FirstSteps(const InputFacts& facts) {
  std::vector<int64_t> steps;
  for (const InputFacts::Segment& segment : facts.segments) steps.push_back(segment.first_step);
  return steps;
}

TEST(InputSeriesTest, WindowsSideBySideAreOneRecordingInAnyOrder) {
  const auto whole = JoinOne(ListOf(Window(30), Window(20), Window(40)));
  ASSERT_EQ(whole->steps.size(), 30);
  for (size_t i = 0; i < 30; ++i) EXPECT_EQ(whole->steps[i].step, static_cast<int64_t>(i));
  EXPECT_THAT(FirstSteps(*whole), ElementsAre(0, 10, 20));
  EXPECT_EQ(whole->source.first_ns, 10 * kSecond);
  EXPECT_EQ(whole->source.last_ns, 40 * kSecond);
  EXPECT_EQ(whole->source.events, 15);
  EXPECT_EQ(whole->lost, 3);
  EXPECT_EQ(whole->source.groups.size(), 1);
}

TEST(InputSeriesTest, WhatLiesBetweenWindowsIsCountedAsSteps) {
  // A minute between two begins: 50 steps that nobody saw.
  EXPECT_THAT(FirstSteps(*JoinOne(ListOf(Window(20), Window(80)))), ElementsAre(0, 60));
  // The step that the window's end cuts is one.
  EXPECT_THAT(FirstSteps(*JoinOne(ListOf(Window(20, kSecond / 2), Window(30, kSecond / 2)))),
              ElementsAre(0, 10));
}

TEST(InputSeriesTest, TheFirstCallOfAGroupBehindAGapIsMarked) {
  const auto whole = JoinOne(ListOf(Window(20), Window(30)));
  std::vector<size_t> marked;
  for (size_t i = 0; i < whole->source.calls.size(); ++i) {
    if (whole->source.calls[i].call.is_after_loss) marked.push_back(i);
  }
  EXPECT_THAT(marked, ElementsAre(10));
}

TEST(InputSeriesTest, AWindowThatOverlapsIsLeftOutAndSaid) {
  const auto whole = JoinOne(ListOf(Window(20), Window(25), Window(30)));
  EXPECT_EQ(whole->steps.size(), 20);
  ASSERT_EQ(whole->source.remarks.size(), 1);
  EXPECT_THAT(whole->source.remarks[0], testing::HasSubstr("1 summaries"));
}

TEST(InputSeriesTest, AWallClockThatWasSetMovesNothing) {
  auto later = Window(30);
  later->unix_offset_ns += kSecond;
  for (StepRow& step : later->steps) step.start_ns += kSecond;
  const auto whole = JoinOne(ListOf(Window(20), std::move(later)));
  EXPECT_EQ(whole->steps[10].start_ns, whole->steps[9].start_ns + kSecond);
  EXPECT_THAT(FirstSteps(*whole), ElementsAre(0, 10));
}

TEST(InputSeriesTest, OtherInputsStayAsTheyAre) {
  auto alone = Window(20);
  alone->window_end_s.reset();
  auto other = Window(20);
  other->id = "another";
  const auto joined = JoinSeries(ListOf(std::move(alone), std::move(other), Window(20)));
  EXPECT_EQ(joined.size(), 3);
  EXPECT_TRUE(joined[0]->segments.empty());
}

}  // namespace
}  // namespace proftrace
