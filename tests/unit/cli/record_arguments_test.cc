#include "userspace/cli/record_arguments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

TEST(MetadataOptionsTest, TheLastOneOfAKeyCounts) {
  RecordArguments arguments;
  arguments.metadata = {"owner=a", "run=1", "owner=b"};
  arguments.metadata_json = {R"(lr={"base": 1e-3})", "steps=5", "steps=[1, 2]"};
  RecordingInfo info;
  ASSERT_TRUE(ParseMetadata(arguments, &info).ok());
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(info.metadata, (Pairs{{"owner", "b"}, {"run", "1"}}));
  EXPECT_EQ(info.metadata_json, (Pairs{{"lr", R"({"base": 1e-3})"}, {"steps", "[1, 2]"}}));
}

TEST(MetadataOptionsTest, WhatIsNoJsonIsRefused) {
  for (const std::string value : {"", "text", "{", "[1,]", "1 2", "NaN",
                                  "\xEF\xBB\xBF"
                                  "1",
                                  "{\"a\": 1} x"}) {
    RecordArguments arguments;
    arguments.metadata_json = {"key=" + value};
    RecordingInfo info;
    const absl::Status status = ParseMetadata(arguments, &info);
    EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage) << value;
    EXPECT_NE(status.message().find("--metadata-json key"), std::string::npos) << status;
  }
  RecordArguments deep;
  deep.metadata_json = {"key=" + std::string(60'000, '[') + std::string(60'000, ']')};
  RecordingInfo info;
  EXPECT_EQ(ExitCodeOf(ParseMetadata(deep, &info)), ExitCode::kUsage);
}

TEST(MetadataOptionsTest, AKeyIsTextOrJson) {
  RecordArguments arguments;
  arguments.metadata = {"key=1"};
  arguments.metadata_json = {"key=1"};
  RecordingInfo info;
  EXPECT_EQ(ExitCodeOf(ParseMetadata(arguments, &info)), ExitCode::kUsage);
}

// Reads a command line as `record` does.
absl::Status Read(std::vector<std::string> words, RecordArguments* arguments,
                  bool has_command = false) {
  CLI::App app;
  AddRecordOptions(&app, arguments);
  std::reverse(words.begin(), words.end());
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    return Fail(ExitCode::kUsage, error.what());
  }
  return CompleteOptions(arguments, has_command);
}

TEST(RecordOptionsTest, ValuesGoRightIntoTheOptions) {
  RecordArguments arguments;
  ASSERT_TRUE(Read({"-p",
                    "5",
                    "-p",
                    "7",
                    "-p",
                    "5",
                    "-d",
                    "250ms",
                    "--buffer-size",
                    "5M",
                    "--sample",
                    "1kHz",
                    "--tier",
                    "patch",
                    "--gpu",
                    "off",
                    "--with-flops",
                    "--with-modules",
                    "--no-follow-children",
                    "--max-overhead",
                    "5%"},
                   &arguments)
                  .ok());
  const RecordOptions& options = arguments.options;
  EXPECT_EQ(options.pids, (std::vector<Pid>{Pid{5}, Pid{7}}));
  EXPECT_EQ(options.duration_s, 0.25);
  EXPECT_EQ(options.bpf.ring_bytes, 8u << 20);
  EXPECT_EQ(options.sample_period_ns, 1'000'000);
  EXPECT_EQ(options.tier, Tier::kPatch);
  EXPECT_EQ(options.info.tier, "patch");
  EXPECT_EQ(options.plan.cuda_calls, CudaCalls::kNever);
  EXPECT_TRUE(options.plan.record_shapes && options.bpf.record_shapes && options.bpf.with_stack);
  EXPECT_FALSE(options.bpf.follow_children);
  EXPECT_EQ(options.max_overhead_percent, 5);
  EXPECT_TRUE(options.bpf.has_budget);
}

TEST(RecordOptionsTest, WhatDoesNotGoTogetherIsRefused) {
  using Words = std::vector<std::string>;
  for (const Words& words : {Words{},
                             Words{"-p", "1", "-a"},
                             Words{"-a", "--no-follow-children"},
                             Words{"-p", "1", "--steps", "3", "--schedule", "active=1"},
                             Words{"-p", "1", "--steps", "3", "--flight-recorder", "30s"},
                             Words{"-p", "1", "--trigger", "exit"},
                             Words{"-p", "1", "--most-dumps", "3"},
                             Words{"-p", "1", "--flight-recorder", "30s", "--trigger", "oom"},
                             Words{"-p", "1", "--tier", "patch", "--no-inject"},
                             Words{"-p", "1", "--tier", "bpf", "--no-bpf"},
                             Words{"-p", "1", "--no-bpf", "--no-inject"},
                             Words{"-p", "1", "--auto-limit", "-1%"},
                             Words{"-p", "1", "--gpu", "agent", "--no-inject"},
                             Words{"-p", "1", "--gpu", "off", "--activities", "cpu,cuda"},
                             Words{"-p", "1", "--gpu", "launch", "--activities", "cpu"},
                             Words{"-p", "1", "--activities", "sched", "--with-stack"},
                             Words{"-p", "1", "--activities", "sched", "--all"},
                             Words{"-p", "1", "--activities", "sched", "--max-overhead", "5%"},
                             Words{"-p", "1", "--activities", "io,cuda"},
                             Words{"-p", "1", "--waker-stacks"},
                             Words{"-p", "1", "--activities", "cpu,"},
                             Words{"-p", "1", "--buffer-size", "2G"},
                             Words{"-p", "010"},
                             Words{"-p", "1", "--steps", "0"},
                             Words{"-p", "1", "--tier", "Patch"}}) {
    RecordArguments arguments;
    EXPECT_EQ(ExitCodeOf(Read(words, &arguments)), ExitCode::kUsage)
        << testing::PrintToString(words);
  }
}

TEST(RecordOptionsTest, TheTierIsChosenUnlessOneIsRuledOut) {
  using Words = std::vector<std::string>;
  const std::vector<std::pair<Words, Tier>> cases = {
      {{"-p", "1"}, Tier::kAuto},
      {{"-p", "1", "--tier", "auto"}, Tier::kAuto},
      {{"-p", "1", "--no-inject"}, Tier::kBpf},
      {{"-p", "1", "--no-bpf"}, Tier::kPatch},
      {{"-p", "1", "--tier", "bpf"}, Tier::kBpf},
      {{"-p", "1", "--tier", "patch", "--no-bpf"}, Tier::kPatch},
  };
  for (const auto& [words, tier] : cases) {
    RecordArguments arguments;
    ASSERT_TRUE(Read(words, &arguments).ok()) << testing::PrintToString(words);
    EXPECT_EQ(arguments.options.tier, tier) << testing::PrintToString(words);
    EXPECT_EQ(arguments.options.auto_limit_percent, 3);
  }
  RecordArguments arguments;
  ASSERT_TRUE(Read({"-p", "1", "--auto-limit", "0.5%"}, &arguments).ok());
  EXPECT_EQ(arguments.options.auto_limit_percent, 0.5);
}

TEST(RecordOptionsTest, SwitchesOfTestsAreWordsOfTheirOwn) {
  RecordOptions options;
  ASSERT_TRUE(ApplyTestSwitches("links-for-all,loss-threads=4,,empty-program", &options).ok());
  EXPECT_TRUE(options.bpf.force_links_for_all && options.bpf.empty_program);
  EXPECT_EQ(options.bpf.loss_threads, 4u);
  EXPECT_EQ(ExitCodeOf(ApplyTestSwitches("loss-threads=x", &options)), ExitCode::kUsage);
  EXPECT_EQ(ExitCodeOf(ApplyTestSwitches("anything", &options)), ExitCode::kUsage);
}

}  // namespace
}  // namespace proftrace
