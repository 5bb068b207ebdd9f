#include "userspace/cli/option_help.h"

#include <gtest/gtest.h>

#include "userspace/base/text.h"
#include "userspace/cli/commands.h"

namespace proftrace {
namespace {

// The program's commands, as the command line has them.
class OptionHelpTest : public testing::Test {
 protected:
  OptionHelpTest() {
    app_.formatter(std::make_shared<HelpText>());
    AddRecordCommand(app_, {}, {}, &action_);
    AddReportCommand(app_, &action_);
    AddExportCommand(app_, &action_);
    AddMergeCommand(app_, &action_);
    AddDumpCommand(app_, &action_);
    AddCleanCommand(app_, &action_);
    AddListCommand(app_, &action_);
    AddDoctorCommand(app_, &action_);
  }

  std::string HelpOf(const std::string& name) { return app_.get_subcommand(name)->help(); }

  CLI::App app_;
  Action action_;
};

TEST_F(OptionHelpTest, EveryLineFitsATerminalOrIsOneWord) {
  for (const CLI::App* command : app_.get_subcommands([](const CLI::App*) { return true; })) {
    const std::string help = command->help();
    for (const std::string_view line : SplitText(help, "\n", /*skip_empty=*/true)) {
      const std::string_view text = line.substr(line.find_first_not_of(' '));
      EXPECT_TRUE(line.size() <= kHelpColumns || text.find(' ') == std::string_view::npos)
          << command->get_name() << ": " << line;
    }
    EXPECT_NE(help.find("Usage: proftrace " + command->get_name() + " "), std::string::npos);
    EXPECT_NE(help.find("Example: "), std::string::npos) << command->get_name();
  }
}

TEST_F(OptionHelpTest, RecordHasGroupsAndNamedValues) {
  const std::string help = HelpOf("record");
  size_t before = 0;
  for (const char* group : {kGroupWhat, kGroupWhen, kGroupHow, kGroupOutputs, kGroupMessages}) {
    const size_t place = help.find("\n" + std::string(group) + ":\n");
    ASSERT_NE(place, std::string::npos) << group;
    EXPECT_GT(place, before) << group;
    before = place;
  }
  for (const char* text : {"--tier auto|bpf|patch", "-p, --pid PID", "--gpu auto|agent|launch|off",
                           "(default: auto)", "(may be given again)"}) {
    EXPECT_NE(help.find(text), std::string::npos) << text;
  }
  EXPECT_EQ(help.find("TEXT:"), std::string::npos);
  EXPECT_NE(HelpOf("export").find("Usage: proftrace export CAPTURE --format LIST [OPTIONS]\n"),
            std::string::npos);
}

TEST_F(OptionHelpTest, EveryOptionSaysWhatItDoes) {
  for (const CLI::App* command : app_.get_subcommands([](const CLI::App*) { return true; })) {
    for (const CLI::Option* option : command->get_options()) {
      if (option->get_group().empty()) continue;
      EXPECT_FALSE(option->get_description().empty())
          << command->get_name() << " " << option->get_name();
    }
  }
}

TEST_F(OptionHelpTest, UnknownWordsAreAnsweredWithTheNearest) {
  const CLI::App& record = *app_.get_subcommand("record");
  EXPECT_EQ(UnknownWord(record, "--with-stacks"),
            "record has no option --with-stacks; did you mean --with-stack?");
  EXPECT_EQ(UnknownWord(record, "--duraton=5"),
            "record has no option --duraton; did you mean --duration?");
  EXPECT_EQ(UnknownWord(record, "--zzzzzz"), "record has no option --zzzzzz");
  EXPECT_EQ(UnknownCommand(app_, "exprot"),
            "'exprot' is no command of proftrace; did you mean export?");
  EXPECT_EQ(UnknownCommand(app_, "4711"),
            "'4711' is no command of proftrace; to record that process: proftrace -p 4711");
}

TEST(WrappedTextTest, BreaksBetweenWordsAndKeepsLongOnes) {
  EXPECT_EQ(WrappedText("a bb ccc", 4, 2), "a bb\n  ccc");
  EXPECT_EQ(WrappedText("a b\nc", 80, 1), "a b\n c");
  EXPECT_EQ(WrappedText("longer-than-that b", 4, 0), "longer-than-that\nb");
}

}  // namespace
}  // namespace proftrace
