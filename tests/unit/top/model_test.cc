// The model of top, what keys do, and how both are drawn, over a made-up job.
#include "userspace/top/top_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/system_events.h"
#include "tests/support/timeline_maker.h"
#include "userspace/top/top_json.h"
#include "userspace/top/top_screen.h"
#include "userspace/top/top_state.h"

namespace proftrace {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kStepNs = 10 * kMs;
constexpr int kSteps = 12;

// Steps of 10 ms: an operator of 2 ms with another of 0.5 ms in it, and a wait of 4.5 ms for a
// lock; a second thread has an operator of 1 ms in each.
class TopTest : public testing::Test {
 protected:
  TopTest() {
    Target target;
    target.pid = Pid{7};
    target.comm = "python3";
    target.torch_version = "2.11.0";
    target.rank = 3;
    target.world_size = 8;
    maker_.info().targets = {target};
    maker_.info().window = {.start_ns = 0, .duration_ns = (kSteps + 2) * kStepNs};
    maker_.info().host.cpus = 4;
    maker_.info().cost.estimated_overhead_percent = 1.5;
  }

  void MakeSteps(int64_t slow_step = -1) {
    int64_t at_ns = kStepNs;
    for (int step = 0; step < kSteps; ++step) {
      const int64_t more_ns = step == slow_step ? kStepNs : 0;
      maker_.Begin(thread_, maker_.AddAnnotation("ProfilerStep#" + std::to_string(step)), at_ns);
      const SpanId outer = maker_.Begin(thread_, multiply_, at_ns + kMs);
      Stack(outer, in_train_);
      Stack(maker_.Add(thread_, copy_, at_ns + kMs, at_ns + kMs + kMs / 2), in_copy_);
      maker_.End(thread_, at_ns + 3 * kMs);
      Stack(maker_.Add(worker_, load_, at_ns + 4 * kMs, at_ns + 5 * kMs), in_train_);
      SystemEvent wait = MakeOffCpu(thread_, WaitReason::kLock, at_ns + 5 * kMs,
                                    at_ns + 9 * kMs + kMs / 2, 0, "futex");
      wait.off_cpu.waker_pid = Pid{7};
      wait.off_cpu.waker_tid = Tid{8};
      maker_.AddSystemEvent(wait);
      SystemEvent read =
          MakeCall(worker_, "read", at_ns + 8 * kMs, at_ns + 9 * kMs, 1000, {5, 0, 4096});
      read.file = file_;
      maker_.AddSystemEvent(read);
      maker_.End(thread_, at_ns + kStepNs + more_ns);
      at_ns += kStepNs + more_ns;
    }
    maker_.info().system.sched = true;
    maker_.info().system.io = true;
  }

  void Stack(SpanId span, StackId stack) { EXPECT_TRUE(maker_.SetStack(span, stack).ok()); }

  TopModel Model(const TopThreads& threads = {}) {
    if (timeline_ == nullptr) timeline_ = maker_.Finish();
    AggregateOptions options;
    options.stacks = false;
    options.sums_all_steps = true;
    aggregates_ = Aggregate(*timeline_, options);
    return BuildTopModel(*timeline_, aggregates_, threads);
  }

  static const TopRow* Find(const TopModel& model, TopView view, const std::string& name) {
    for (const TopRow& row : model.table(view).rows) {
      if (row.name.find(name) != std::string::npos) return &row;
    }
    return nullptr;
  }

  static std::string Screen(const TopModel& model, const TopState& state, int columns = 80,
                            bool is_utf8 = true) {
    TopStatus status;
    NoteSteps(model, &status);
    TextGrid grid(24, columns, is_utf8);
    size_t page = 0;
    DrawTop(&model, state, status, &grid, &page);
    return grid.Text();
  }

  static TopKey Key(char character) { return {TopKeyKind::kCharacter, std::string(1, character)}; }

  TimelineMaker maker_;
  ThreadIndex thread_ = maker_.AddThread(7, 7, "main");
  ThreadIndex worker_ = maker_.AddThread(7, 8, "loader");
  LabelId multiply_ = maker_.AddOperator("aten::mm");
  LabelId copy_ = maker_.AddOperator("aten::copy_");
  LabelId load_ = maker_.AddOperator("aten::load");
  SystemFileId file_ = maker_.AddSystemFile(SystemFileKind::kRegular, "/data/shard.tar");
  StackId in_train_ = maker_.AddFrame(kNoStack, maker_.AddCode("train.py", "train", 10), 1);
  StackId in_copy_ = maker_.AddFrame(in_train_, maker_.AddCode("train.py", "fetch", 30), 1);
  std::unique_ptr<Timeline> timeline_;
  Aggregates aggregates_;
};

TEST_F(TopTest, FiguresAreThoseOfAStep) {
  MakeSteps();
  const TopModel model = Model();
  EXPECT_TRUE(model.are_steps);
  EXPECT_EQ(model.steps.size(), static_cast<size_t>(kSteps));
  EXPECT_EQ(model.median_step_ns, kStepNs);
  EXPECT_NEAR(model.steps_per_s, 100, 1e-6);
  EXPECT_EQ(model.target, "PID 7 python3");
  EXPECT_EQ(model.rank, "3/8");
  const TopRow* multiply = Find(model, TopView::kOperators, "aten::mm");
  ASSERT_NE(multiply, nullptr);
  EXPECT_DOUBLE_EQ(multiply->values[0], 1.5);  // self
  EXPECT_DOUBLE_EQ(multiply->values[2], 2);    // total
  EXPECT_DOUBLE_EQ(multiply->values[3], 1);    // calls
  double percent = 0;
  for (const TopRow& row : model.table(TopView::kOperators).rows) percent += row.values[1];
  EXPECT_NEAR(percent, 100, 1e-6);
}

TEST_F(TopTest, PartsAreThoseOfTheVerdict) {
  MakeSteps();
  const TopModel model = Model();
  const std::optional<StepParts> parts = SplitSteps(*timeline_, aggregates_.steps);
  ASSERT_TRUE(parts.has_value());
  double shares = 0;
  for (const TopPart& part : model.parts) {
    shares += part.share;
    EXPECT_DOUBLE_EQ(part.ms * kSteps * 1e6, static_cast<double>(parts->of(part.part)));
  }
  EXPECT_NEAR(shares, 1, 1e-9);
  ASSERT_FALSE(model.verdict.findings.empty());
  EXPECT_EQ(model.verdict.findings[0].kind, FindingKind::kLock);
}

TEST_F(TopTest, ThreadsFilesWaitsAndFunctionsHaveTheirRows) {
  Target& target = maker_.info().targets.front();
  target.stacks_recorded = true;
  MakeSteps();
  const TopModel model = Model();
  const TopRow* main = Find(model, TopView::kThreads, "main");
  ASSERT_NE(main, nullptr);
  EXPECT_NEAR(main->values[0], 5.5, 1e-9);  // CPU
  EXPECT_NEAR(main->values[3], 4.5, 1e-9);  // lock
  const TopRow* file = Find(model, TopView::kFiles, "/data/shard.tar");
  ASSERT_NE(file, nullptr);
  EXPECT_NEAR(file->values[0], 1, 1e-9);
  EXPECT_NEAR(file->values[2], 1000, 1e-9);
  const TopRow* wait = Find(model, TopView::kWaits, "the main thread: ");
  ASSERT_NE(wait, nullptr);
  EXPECT_THAT(wait->name, HasSubstr("woken by thread loader (TID 8"));
  EXPECT_NEAR(wait->values[0], 4.5, 1e-9);
  EXPECT_NEAR(wait->values[1], 1, 1e-9);
  const TopRow* train = Find(model, TopView::kPython, "train.py(10): train");
  const TopRow* fetch = Find(model, TopView::kPython, "train.py(30): fetch");
  ASSERT_NE(train, nullptr);
  ASSERT_NE(fetch, nullptr);
  EXPECT_NEAR(fetch->values[0], 0.5, 1e-9);
  EXPECT_NEAR(fetch->values[2], 1, 1e-9);
  // Calls of it cannot be told apart: it is one on each thread, from its first row to its last.
  EXPECT_NEAR(train->values[2], 2.0 / kSteps, 1e-9);
  EXPECT_NEAR(train->values[0], train->values[1] - 0.5, 1e-9);  // less what it calls
}

TEST_F(TopTest, ChosenThreadsHaveTheirOwnOperatorsFunctionsAndWaits) {
  maker_.info().targets.front().stacks_recorded = true;
  MakeSteps();
  const TopModel model = Model({{7, 8}});
  EXPECT_EQ(Find(model, TopView::kOperators, "aten::mm"), nullptr);
  const TopRow* load = Find(model, TopView::kOperators, "aten::load");
  ASSERT_NE(load, nullptr);
  EXPECT_DOUBLE_EQ(load->values[0], 1);
  EXPECT_DOUBLE_EQ(load->values[1], 100);
  EXPECT_TRUE(model.table(TopView::kWaits).rows.empty());
  EXPECT_EQ(Find(model, TopView::kPython, "fetch"), nullptr);
  EXPECT_EQ(model.table(TopView::kThreads).rows.size(), 2u);
}

TEST_F(TopTest, WithoutStepsFiguresAreThoseOfASecond) {
  maker_.Add(thread_, multiply_, kMs, 71 * kMs);
  const TopModel model = Model();
  EXPECT_FALSE(model.are_steps);
  const TopRow* multiply = Find(model, TopView::kOperators, "aten::mm");
  ASSERT_NE(multiply, nullptr);
  EXPECT_NEAR(multiply->values[2], 500, 1e-6);  // 70 ms of 140 ms
  EXPECT_THAT(Screen(model, {}), HasSubstr("No steps found"));
}

TEST_F(TopTest, WhatWasNotRecordedSaysWhatWouldShowIt) {
  maker_.info().targets.front().stacks_recorded = false;
  maker_.Add(thread_, multiply_, kMs, 2 * kMs);
  const TopModel model = Model();
  for (const TopView view :
       {TopView::kModules, TopView::kPython, TopView::kFiles, TopView::kWaits, TopView::kGpu}) {
    EXPECT_FALSE(model.table(view).missing.empty()) << TopViewName(view);
    TopState state;
    state.view = view;
    EXPECT_THAT(Screen(model, state), HasSubstr(model.table(view).missing.substr(0, 40)));
  }
}

TEST_F(TopTest, AnEmptyTimelineIsDrawn) {
  const TopModel model = Model();
  for (size_t view = 0; view < kTopViews; ++view) {
    TopState state;
    state.view = static_cast<TopView>(view);
    EXPECT_THAT(Screen(model, state), HasSubstr("proftrace top"));
  }
  EXPECT_FALSE(TopJson(model, {}, 10).empty());
}

TEST_F(TopTest, DevicesAndKernelsHaveTheirTable) {
  MakeSteps();
  const SpanId asker = SpanId{1};
  ASSERT_TRUE(maker_.AddKernel(asker, "gemm_kernel", kStepNs + kMs, kMs).ok());
  ASSERT_TRUE(maker_.AddKernel(asker, "gemm_kernel", kStepNs + 5 * kMs, kMs).ok());
  const TopModel model = Model();
  ASSERT_EQ(model.devices.size(), 1u);
  EXPECT_NEAR(model.devices[0].busy_share, 0.4, 1e-9);
  const TopRow* kernel = Find(model, TopView::kGpu, "gemm_kernel");
  ASSERT_NE(kernel, nullptr);
  EXPECT_NEAR(kernel->values[0], 2.0 / kSteps, 1e-9);
  EXPECT_THAT(Screen(model, {}), HasSubstr("40% busy"));
}

TEST_F(TopTest, TheScreenHasItAllInEightyColumnsOfAscii) {
  MakeSteps(/*slow_step=*/5);
  const TopModel model = Model();
  const std::string screen = Screen(model, {}, 80, /*is_utf8=*/false);
  EXPECT_THAT(screen, HasSubstr("PID 7 python3"));
  EXPECT_THAT(screen, HasSubstr("median 10.0 ms"));
  EXPECT_THAT(screen, HasSubstr("lock"));
  EXPECT_THAT(screen, HasSubstr("why: "));
  EXPECT_THAT(screen, HasSubstr("cost: the job 1.5%"));
  EXPECT_THAT(screen, HasSubstr("lost 0"));
  EXPECT_THAT(screen, HasSubstr("aten::mm"));
  EXPECT_THAT(screen, HasSubstr("=#="));  // half of the slowest, the slowest, half of it
  size_t begin = 0;
  for (const char c : screen) {
    EXPECT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7f));
  }
  while (begin < screen.size()) {
    const size_t end = screen.find('\n', begin);
    EXPECT_LE(end - begin, 80u);
    begin = end + 1;
  }
}

TEST_F(TopTest, ScreensOfAnySizeAreDrawn) {
  MakeSteps();
  const TopModel model = Model();
  for (int rows = 0; rows < 14; ++rows) {
    for (const int columns : {0, 1, 2, 5, 20, 79, 300}) {
      TextGrid grid(rows, columns, true);
      size_t page = 0;
      for (const TopMode mode : {TopMode::kTable, TopMode::kFilter, TopMode::kText}) {
        TopState state;
        if (mode == TopMode::kText) ShowLines("x", "a\nb\nc", &state);
        state.mode = mode;
        DrawTop(&model, state, {}, &grid, &page);
        EXPECT_GE(page, 1u);
      }
    }
  }
}

TEST_F(TopTest, HostileNamesDoNotReachTheTerminal) {
  maker_.info().targets.front().comm = "py\x1b[2Jthon";
  maker_.Add(thread_, maker_.AddOperator("aten::\x1b]0;owned\x07\x9b!p\n"), kMs, 20 * kMs);
  const TopModel model = Model();
  const std::string screen = Screen(model, {}, 200);
  for (const char c : screen) {
    const auto byte = static_cast<unsigned char>(c);
    EXPECT_TRUE(c == '\n' || byte >= 0x20) << int{byte};
  }
  EXPECT_THAT(screen, HasSubstr("aten::\\x1b]0;owned\\x07"));
  const std::string json = TopJson(model, {}, 10);
  EXPECT_EQ(json.find('\n'), json.size() - 1);
  for (const char c : json.substr(0, json.size() - 1)) EXPECT_TRUE(c >= 0x20 && c < 0x7f);
  const nlohmann::json parsed = nlohmann::json::parse(json);
  EXPECT_EQ(parsed["tables"]["operators"]["rows"].size(), 1u);
}

TEST_F(TopTest, JsonHasTheModel) {
  MakeSteps();
  const TopModel model = Model();
  TopStatus status;
  NoteSteps(model, &status);
  const nlohmann::json json = nlohmann::json::parse(TopJson(model, status, 1));
  EXPECT_EQ(json["per"], "step");
  EXPECT_EQ(json["steps"]["count"], kSteps);
  EXPECT_DOUBLE_EQ(json["steps"]["median_ms"], 10);
  EXPECT_EQ(json["tables"]["operators"]["rows"][0]["name"], "ProfilerStep*");
  EXPECT_EQ(json["tables"]["operators"]["rows_left_out"],
            model.table(TopView::kOperators).rows.size() - 1);
  EXPECT_EQ(json["tables"]["threads"]["rows"][0]["tid"], 8);
  EXPECT_EQ(json["why"]["findings"][0]["kind"], "lock");
  EXPECT_TRUE(json["cost"]["viewer_cpu_percent"].is_null());
}

TEST_F(TopTest, KeysChooseViewsAndColumns) {
  MakeSteps();
  const TopModel model = Model();
  TopState state;
  EXPECT_EQ(OnTopKey(Key('t'), model, 10, &state), TopAction::kNone);
  EXPECT_EQ(state.view, TopView::kThreads);
  OnTopKey(Key('o'), model, 10, &state);
  EXPECT_EQ(ShownRows(model, state).front()->name, "ProfilerStep*");
  OnTopKey(Key('4'), model, 10, &state);
  EXPECT_EQ(state.sort_columns[0], 3u);
  OnTopKey(Key('9'), model, 10, &state);  // there is no such column
  EXPECT_EQ(state.sort_columns[0], 3u);
  OnTopKey(Key('s'), model, 10, &state);
  EXPECT_EQ(state.sort_columns[0], 0u);
  OnTopKey(Key('R'), model, 10, &state);
  EXPECT_EQ(ShownRows(model, state).back()->name, "ProfilerStep*");
  EXPECT_EQ(OnTopKey(Key('q'), model, 10, &state), TopAction::kQuit);
  EXPECT_EQ(OnTopKey(Key('r'), model, 10, &state), TopAction::kKeep);
  EXPECT_EQ(OnTopKey(Key('d'), model, 10, &state), TopAction::kDump);
  EXPECT_EQ(OnTopKey(Key(' '), model, 10, &state), TopAction::kPause);
  EXPECT_TRUE(state.is_paused);
  EXPECT_THAT(Screen(model, state), HasSubstr("PAUSED"));
}

TEST_F(TopTest, AFilterIsTypedAndTakenBack) {
  MakeSteps();
  const TopModel model = Model();
  TopState state;
  OnTopKey(Key('/'), model, 10, &state);
  for (const char c : std::string("COPYq")) OnTopKey(Key(c), model, 10, &state);
  EXPECT_EQ(state.typed, "COPYq");  // q is a letter here
  OnTopKey({TopKeyKind::kBackspace, ""}, model, 10, &state);
  OnTopKey({TopKeyKind::kEnter, ""}, model, 10, &state);
  ASSERT_EQ(ShownRows(model, state).size(), 1u);
  EXPECT_EQ(ShownRows(model, state)[0]->name, "aten::copy_");
  EXPECT_THAT(Screen(model, state), HasSubstr("/COPY"));
  OnTopKey({TopKeyKind::kEscape, ""}, model, 10, &state);
  EXPECT_GT(ShownRows(model, state).size(), 1u);
  OnTopKey(Key('/'), model, 10, &state);
  OnTopKey({TopKeyKind::kCharacter, "模"}, model, 10, &state);
  OnTopKey({TopKeyKind::kBackspace, ""}, model, 10, &state);
  EXPECT_EQ(state.typed, "");
}

TEST_F(TopTest, ThreadsAreChosenUnderTheCursor) {
  MakeSteps();
  const TopModel model = Model();
  TopState state;
  EXPECT_EQ(OnTopKey(Key('+'), model, 10, &state), TopAction::kNone);
  EXPECT_FALSE(state.message.empty());
  OnTopKey(Key('t'), model, 10, &state);
  OnTopKey({TopKeyKind::kDown, ""}, model, 10, &state);
  EXPECT_EQ(OnTopKey({TopKeyKind::kEnter, ""}, model, 10, &state), TopAction::kThreads);
  EXPECT_EQ(state.threads, (TopThreads{{7, 7}}));
  EXPECT_THAT(Screen(model, state), HasSubstr("1 thread"));
  EXPECT_EQ(OnTopKey(Key('+'), model, 10, &state), TopAction::kThreads);
  EXPECT_TRUE(state.threads.empty());
}

TEST_F(TopTest, TheCursorStaysAmongTheRows) {
  MakeSteps();
  const TopModel model = Model();
  TopState state;
  const size_t count = ShownRows(model, state).size();
  OnTopKey({TopKeyKind::kUp, ""}, model, 10, &state);
  EXPECT_EQ(state.cursor, 0u);
  OnTopKey({TopKeyKind::kEnd, ""}, model, 10, &state);
  EXPECT_EQ(state.cursor, count - 1);
  OnTopKey({TopKeyKind::kPageDown, ""}, model, 10, &state);
  EXPECT_EQ(state.cursor, count - 1);
  OnTopKey({TopKeyKind::kHome, ""}, model, 10, &state);
  EXPECT_EQ(state.cursor, 0u);
}

TEST_F(TopTest, HelpTheVerdictAndDumpsAreRead) {
  MakeSteps();
  const TopModel model = Model();
  TopState state;
  OnTopKey(Key('?'), model, 10, &state);
  EXPECT_THAT(Screen(model, state), HasSubstr("quit; the job is left as it was"));
  OnTopKey({TopKeyKind::kPageDown, ""}, model, 10, &state);
  EXPECT_GT(state.first_line, 0u);
  EXPECT_EQ(OnTopKey(Key('q'), model, 10, &state), TopAction::kNone);  // back, not the end
  EXPECT_EQ(state.mode, TopMode::kTable);
  OnTopKey(Key('v'), model, 10, &state);
  EXPECT_THAT(Screen(model, state), HasSubstr("Steps take 10.0 ms"));
  ShowLines("dump", "Thread 7 (\x1b[31mevil)\n", &state);
  EXPECT_THAT(Screen(model, state), HasSubstr("Thread 7 (\\x1b[31mevil)"));
}

TEST_F(TopTest, StepsAreCountedOnceThoughWindowsOverlap) {
  MakeSteps();
  TopModel model = Model();
  TopStatus status;
  NoteSteps(model, &status);
  NoteSteps(model, &status);
  EXPECT_EQ(status.steps_seen, static_cast<uint64_t>(kSteps));
  model.steps.push_back({model.steps.back().start_ns + kStepNs, kStepNs});
  NoteSteps(model, &status);
  EXPECT_EQ(status.steps_seen, static_cast<uint64_t>(kSteps) + 1);
}

// Hours of windows take no more memory than a few: what is kept is bounded.
TEST_F(TopTest, WhatIsKeptOfManyWindowsIsBounded) {
  MakeSteps();
  TopModel model = Model();
  TopStatus status;
  for (int window = 0; window < 10'000; ++window) {
    for (TopStep& step : model.steps) step.start_ns += kSteps * kStepNs;
    NoteSteps(model, &status);
  }
  EXPECT_EQ(status.steps_seen, 10'000u * kSteps);
  EXPECT_LE(status.steps.size(), kMostShownSteps);
  EXPECT_LE(status.steps.capacity(), 4 * kMostShownSteps);
}

TEST(TopTextTest, SparklinesAreBetweenNothingAndTheLargest) {
  EXPECT_EQ(Sparkline({0, 7, 3.5}, 10, true), "▁█▅");
  EXPECT_EQ(Sparkline({0, 7, 3.5}, 10, false), "_#=");
  EXPECT_EQ(Sparkline({1, 2, 4}, 2, false), "=#");
  EXPECT_EQ(Sparkline({}, 10, true), "");
  EXPECT_EQ(Sparkline({0, 0}, 10, false), "__");
}

TEST(TopTextTest, ValuesHaveThreeOrFourDigits) {
  EXPECT_EQ(TopValueText(0.1234, TopUnit::kMs), "0.123");
  EXPECT_EQ(TopValueText(12.345, TopUnit::kMs), "12.35");
  EXPECT_EQ(TopValueText(123.45, TopUnit::kMs), "123.5");
  EXPECT_EQ(TopValueText(2, TopUnit::kCount), "2.00");
  EXPECT_EQ(TopValueText(1500, TopUnit::kBytes), "1.5 kB");
  EXPECT_EQ(TopValueText(4711, TopUnit::kNumber), "4711");
}

}  // namespace
}  // namespace proftrace
