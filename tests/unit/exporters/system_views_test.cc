// What `report --by-file`, `--by-syscall` and `--waits` print.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "exporters/text/system_views.h"
#include "exporters/text/text_table.h"
#include "tests/support/system_events.h"
#include "tests/support/timeline_maker.h"

namespace proftrace {
namespace {

using Json = nlohmann::ordered_json;

class SystemViewsTest : public testing::Test {
 protected:
  std::string Print(const SystemViewOptions& options) {
    if (timeline_ == nullptr) timeline_ = maker_.Finish();
    StringSink sink;
    const absl::Status status = ExportSystemView(*timeline_, options, sink);
    EXPECT_TRUE(status.ok()) << status;
    return sink.text();
  }

  TimelineMaker maker_;
  ThreadIndex thread_ = maker_.AddThread(10, 11, "ma\x1b[31min");
  ThreadIndex other_ = maker_.AddThread(10, 12, "other");
  std::unique_ptr<Timeline> timeline_;
};

TEST_F(SystemViewsTest, FilesAreShownAndCutOff) {
  for (int i = 0; i < 3; ++i) {
    SystemEvent call = MakeCall(thread_, "read", i * 1000, i * 1000 + 500 - i, 64);
    call.file = maker_.AddSystemFile(SystemFileKind::kPipe,
                                     "pipe:\x1b[2J" + std::to_string(i) + "\"\n\xff");
    maker_.AddSystemEvent(call);
  }
  const std::string text = Print({SystemView::kByFile, 2, false});
  EXPECT_NE(text.find("Bytes read"), std::string::npos);
  EXPECT_NE(text.find("0.500us"), std::string::npos);
  EXPECT_NE(text.find("(1 more rows; --row-limit -1 shows all)"), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find("Off CPU"), std::string::npos);  // it was not recorded
  const Json all = Json::parse(Print({SystemView::kByFile, -1, true}));
  ASSERT_EQ(all["rows"].size(), 3u);
  EXPECT_EQ(all["rows_left_out"], 0);
  const Json& first = all["rows"][0];
  EXPECT_EQ(first["file"], "pipe:\x1b[2J0\"\n\xEF\xBF\xBD");
  EXPECT_EQ(first["kind"], "pipe");
  EXPECT_EQ(first["reads"], 1);
  EXPECT_EQ(first["bytes_read"], 64);
  EXPECT_EQ(first["time_ns"], 500);
  EXPECT_TRUE(first["off_cpu_ns"].is_null());
}

TEST_F(SystemViewsTest, SystemCallsHaveTheirNumbers) {
  maker_.AddSystemEvent(MakeCall(thread_, "read", 0, 2'500'000, 64));
  maker_.AddSystemEvent(MakeCall(thread_, "read", 3'000'000, 3'500'000, -EINTR));
  const Json all = Json::parse(Print({SystemView::kBySystemCall, 100, true}));
  const Json& read = all["rows"][0];
  EXPECT_EQ(read["name"], "read");
  EXPECT_EQ(read["calls"], 2);
  EXPECT_EQ(read["errors"], 1);
  EXPECT_EQ(read["mean_ns"], 1'500'000);
  EXPECT_EQ(read["max_ns"], 2'500'000);
  EXPECT_EQ(read["bytes"], 64);
  EXPECT_NE(Print({SystemView::kBySystemCall, 100, false}).find("2.500ms"), std::string::npos);
}

TEST_F(SystemViewsTest, WaitsNameBothThreads) {
  const SpanId span = maker_.Begin(thread_, maker_.AddAnnotation("wait"), 0);
  SystemEvent wait = MakeOffCpu(thread_, WaitReason::kLock, 10, 60, 10, "futex");
  wait.span = span;
  wait.off_cpu.waker_pid = Pid{10};
  wait.off_cpu.waker_tid = Tid{12};
  maker_.AddSystemEvent(wait);
  maker_.Add(other_, maker_.AddOperator("aten::mul"), 40, 55);
  maker_.End(thread_, 100);
  const Json row = Json::parse(Print({SystemView::kWaits, 100, true}))["rows"][0];
  EXPECT_EQ(row["blocked_ns"], 40);
  EXPECT_EQ(row["tid"], 11);
  EXPECT_EQ(row["thread_name"], "ma\x1b[31min");
  EXPECT_EQ(row["reason"], "lock");
  EXPECT_EQ(row["path"], "wait");
  EXPECT_EQ(row["syscall"], "futex");
  EXPECT_EQ(row["waker_tid"], 12);
  EXPECT_EQ(row["waker_thread_name"], "other");
  EXPECT_EQ(row["waker_path"], "aten::mul");
  const std::string text = Print({SystemView::kWaits, 100, false});
  EXPECT_NE(text.find("wait | futex"), std::string::npos);
  EXPECT_NE(text.find("other 12"), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST_F(SystemViewsTest, WhatWasNotRecordedIsSaid) {
  timeline_ = maker_.Finish();
  StringSink sink;
  for (const auto& [view, words] :
       {std::pair{SystemView::kByFile, "--by-file: no system calls"},
        std::pair{SystemView::kBySystemCall, "--by-syscall: no system calls"},
        std::pair{SystemView::kWaits, "--waits: no time off the CPU"}}) {
    const absl::Status status = ExportSystemView(*timeline_, {view, 100, false}, sink);
    EXPECT_NE(status.message().find(words), std::string::npos) << status;
    EXPECT_NE(status.message().find("record with --activities"), std::string::npos);
  }
  EXPECT_TRUE(sink.text().empty());
}

TEST(TextTableTest, AlignsByCodePointsAndKeepsTheEndOfWhatIsTooLong) {
  TextTable table({{"Name"}, {"Count", true}});
  table.AddRow({"\xC3\xA9t\xC3\xA9", "7"});
  table.AddRow({std::string(80, 'a') + "end", "12345678"});
  const std::string text = table.Take();
  const std::string long_name = "..." + std::string(TextTable::kMostCells - 6, 'a') + "end";
  EXPECT_NE(text.find(long_name + "  12345678\n"), std::string::npos) << text;
  EXPECT_NE(
      text.find("\xC3\xA9t\xC3\xA9" + std::string(TextTable::kMostCells - 3, ' ') + "         7\n"),
      std::string::npos)
      << text;
}

TEST(TextTableTest, TimesHaveTheirUnit) {
  EXPECT_EQ(TimeText(0), "0.000us");
  EXPECT_EQ(TimeText(999'999), "999.999us");
  EXPECT_EQ(TimeText(1'000'000), "1.000ms");
  EXPECT_EQ(TimeText(61'500'000'000), "61.500s");
}

}  // namespace
}  // namespace proftrace
