#include "userspace/cli/record_arguments.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace proftrace
