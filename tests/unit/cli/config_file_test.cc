#include "userspace/cli/config_file.h"

#include <gtest/gtest.h>

#include <memory>

#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

constexpr char kPath[] = "/etc/proftrace/config";

std::string ErrorOf(std::string_view text) {
  const absl::StatusOr<std::vector<OptionDefault>> defaults = ParseConfig(text, kPath);
  EXPECT_EQ(ExitCodeOf(defaults.status()), ExitCode::kUsage) << text;
  return std::string(defaults.status().message());
}

TEST(ConfigFileTest, LinesAreOptionsOfTheirSection) {
  const absl::StatusOr<std::vector<OptionDefault>> defaults = ParseConfig(
      "# of this site\n\n[record]\n duration = 30s \nmetadata=a=b\n[ fleet report ]\njobs = 3\n",
      kPath);
  ASSERT_TRUE(defaults.ok()) << defaults.status();
  ASSERT_EQ(defaults->size(), 3u);
  EXPECT_EQ((*defaults)[0].command, "record");
  EXPECT_EQ((*defaults)[0].option, "duration");
  EXPECT_EQ((*defaults)[0].value, "30s");
  EXPECT_EQ((*defaults)[0].place, "/etc/proftrace/config, line 4");
  EXPECT_EQ((*defaults)[1].value, "a=b");
  EXPECT_EQ((*defaults)[2].command, "fleet report");
}

TEST(ConfigFileTest, WhatIsWrongIsToldByItsLine) {
  EXPECT_NE(ErrorOf("duration = 3s\n").find("line 1: a section has to come first"),
            std::string::npos);
  EXPECT_NE(ErrorOf("[record]\nduration\n").find("line 2: write OPTION = VALUE"),
            std::string::npos);
  for (const char* typed : {"pid", "all-processes", "as-root", "force"}) {
    EXPECT_NE(ErrorOf("[record]\n" + std::string(typed) + " = 1\n").find("has no default"),
              std::string::npos);
  }
}

// A command with an option, a flag, and two options that exclude each other.
class WordsOfDefaultsTest : public testing::Test {
 protected:
  WordsOfDefaultsTest() {
    command_ = app_.add_subcommand("record", "");
    command_->add_option("-d,--duration", duration_);
    command_->add_flag("--with-stack", with_stack_);
    CLI::Option* steps = command_->add_option("--steps", steps_);
    command_->add_option("--schedule", schedule_)->excludes(steps);
  }

  absl::StatusOr<std::vector<std::string>> WordsFor(const std::string& typed,
                                                    std::vector<OptionDefault> defaults) {
    app_.parse("record " + typed);
    return WordsOfDefaults(*command_, defaults);
  }

  static OptionDefault Default(const std::string& option, const std::string& value) {
    return {"record", option, value, "file, line 1"};
  }

  CLI::App app_{"", "proftrace"};
  CLI::App* command_ = nullptr;
  std::string duration_;
  std::string steps_;
  std::string schedule_;
  bool with_stack_ = false;
};

TEST_F(WordsOfDefaultsTest, WhatWasNotTypedIsAdded) {
  EXPECT_EQ(*WordsFor("", {Default("duration", "-3s"),
                           Default("with-stack", "true"),
                           {"top", "duration", "9s", ""}}),
            (std::vector<std::string>{"--duration=-3s", "--with-stack"}));
}

TEST_F(WordsOfDefaultsTest, WhatWasTypedHolds) {
  EXPECT_TRUE(WordsFor("-d 5s", {Default("duration", "30s")})->empty());
  EXPECT_TRUE(WordsFor("--steps 4", {Default("schedule", "active=1")})->empty());
  EXPECT_TRUE(WordsFor("--schedule active=1", {Default("steps", "4")})->empty());
  EXPECT_TRUE(WordsFor("", {Default("with-stack", "false")})->empty());
}

TEST_F(WordsOfDefaultsTest, AnUnknownOptionAndAFlagThatIsNeitherAreRefused) {
  EXPECT_EQ(ExitCodeOf(WordsFor("", {Default("durration", "3s")}).status()), ExitCode::kUsage);
  EXPECT_EQ(ExitCodeOf(WordsFor("", {Default("with-stack", "yes")}).status()), ExitCode::kUsage);
}

}  // namespace
}  // namespace proftrace
