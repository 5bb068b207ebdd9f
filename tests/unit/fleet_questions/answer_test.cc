#include "userspace/fleet_questions/answer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "userspace/base/exit_status.h"
#include "userspace/fleet_questions/answer_output.h"
#include "userspace/fleet_questions/report.h"

namespace proftrace {
namespace {

absl::Status ReadAll(AnswerSink& sink, const std::vector<std::string>& lines) {
  AnswerReader reader(sink);
  for (const std::string& line : lines) {
    absl::Status status = reader.ReadLine(line);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

std::vector<std::string> Begin(const std::string& name, const std::string& type) {
  return {R"({"proftrace_question":"q"})",
          R"({"column_name":")" + name + R"(","column_type":")" + type + R"(","null":"YES"})",
          R"({"proftrace_rows":"q"})"};
}

TEST(AnswerReaderTest, ReadsWhatDuckDbWritesWhereJsonHasNoNumber) {
  ReportAnswers answers;
  std::vector<std::string> lines = Begin("x", "DOUBLE");
  for (const char* row : {R"({"x":Infinity})", R"({"x":-Infinity})", R"({"x":NaN})", R"({"x":1.5})",
                          "", R"({"x":"say \"NaN\" \\"})"}) {
    lines.emplace_back(row);
  }
  ASSERT_TRUE(ReadAll(answers, lines).ok());
  const Answer& answer = answers.Of("q");
  ASSERT_EQ(answer.rows.size(), 5);
  for (size_t row : {0, 1, 2}) EXPECT_TRUE(answer.At(row, "x").is_null());
  EXPECT_EQ(answer.At(3, "x"), 1.5);
  EXPECT_EQ(answer.At(4, "x"), "say \"NaN\" \\");
  EXPECT_TRUE(answer.At(5, "x").is_null());
  EXPECT_TRUE(answer.At(0, "y").is_null());
}

TEST(AnswerReaderTest, TextBesideAnInfinityStays) {
  ReportAnswers answers;
  std::vector<std::string> lines = Begin("a", "VARCHAR");
  lines.emplace_back(R"({"a":"NaN, \"Infinity\"","b":Infinity})");
  ASSERT_TRUE(ReadAll(answers, lines).ok());
  EXPECT_EQ(answers.Of("q").At(0, "a"), "NaN, \"Infinity\"");
}

TEST(AnswerReaderTest, LongNumbersAreNumbers) {
  ReportAnswers answers;
  std::vector<std::string> lines = Begin("n", "HUGEINT");
  lines.emplace_back(R"({"n":"9007199254740993"})");
  lines.emplace_back(R"({"n":"170141183460469231731687303715884105727"})");
  lines.emplace_back(R"({"n":null})");
  ASSERT_TRUE(ReadAll(answers, lines).ok());
  EXPECT_EQ(answers.Of("q").At(0, "n"), 9007199254740993);
  EXPECT_TRUE(answers.Of("q").At(1, "n").is_number_float());
  EXPECT_TRUE(answers.Of("q").At(2, "n").is_null());
}

TEST(AnswerReaderTest, ColumnsHaveDifferentNames) {
  ReportAnswers answers;
  std::vector<std::string> lines = Begin("a", "INTEGER");
  lines.insert(lines.begin() + 1, lines[1]);
  const absl::Status status = ReadAll(answers, lines);
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage);
}

TEST(AnswerReaderTest, WhatIsNoAnswerIsAnError) {
  ReportAnswers answers;
  for (const char* line : {"hello", "[1]", "{\"a\":", "12"}) {
    EXPECT_EQ(ExitCodeOf(ReadAll(answers, {line})), ExitCode::kBug) << line;
  }
}

TEST(AnswerWriterTest, ATableShowsSomeRowsAndSaysHowManyThereAre) {
  std::string text;
  const auto writer =
      NewAnswerWriter(AnswerForm::kTable, [&](const std::string& part) { text += part; });
  ASSERT_TRUE(writer->OnQuestion("q", {{"n", "BIGINT"}}).ok());
  for (size_t i = 0; i < kMostTableRows + 5; ++i) ASSERT_TRUE(writer->OnRow({i}).ok());
  writer->Finish();
  EXPECT_NE(text.find("1000 of 1005 rows"), std::string::npos);
  EXPECT_EQ(text.find("1004"), std::string::npos);
}

}  // namespace
}  // namespace proftrace
