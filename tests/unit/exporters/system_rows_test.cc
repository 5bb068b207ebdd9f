// System activity in the chrome trace and in DFTracer's format.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/io_uring.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "exporters/formats.h"
#include "exporters/traces/chrome_trace.h"
#include "exporters/traces/pfw.h"
#include "tests/support/system_events.h"
#include "tests/support/timeline_maker.h"
#include "userspace/aggregate/aggregates.h"

namespace proftrace {
namespace {

using Json = nlohmann::ordered_json;

class SystemRowsTest : public testing::Test {
 protected:
  SystemRowsTest() { maker_.info().window.start_ns = kStartNs; }

  Json Chrome() {
    timeline_ = maker_.Finish();
    StringSink sink;
    EXPECT_TRUE(ExportChromeTrace(*timeline_, sink).ok());
    return Json::parse(sink.text())["traceEvents"];
  }

  static std::vector<Json> WithPhase(const Json& events, const std::string& phase) {
    std::vector<Json> rows;
    for (const Json& event : events) {
      if (event["ph"] == phase && event.value("cat", "") != "Trace") rows.push_back(event);
    }
    return rows;
  }

  // "S 100-130": states of a thread, times from the beginning of the window.
  std::vector<std::string> States(const Json& events, int tid) const {
    const int64_t base_ns = timeline_->ToUnixNs(kStartNs) % (int64_t{86'400} * 1'000'000'000);
    std::vector<std::string> states;
    for (const Json& row : WithPhase(events, "T")) {
      if (row["tid"] != tid) continue;
      const int64_t start_ns = std::llround(row["ts"].get<double>() * 1000) - base_ns;
      const int64_t end_ns = start_ns + std::llround(row["dur"].get<double>() * 1000);
      states.push_back(row["name"].get<std::string>() + " " + std::to_string(start_ns) + "-" +
                       std::to_string(end_ns));
    }
    return states;
  }

  // Lines by name; the rows without definitions in order.
  std::vector<Json> Pfw() {
    timeline_ = maker_.Finish();
    StringSink sink;
    EXPECT_TRUE(ExportPfw(*timeline_, sink).ok());
    std::istringstream lines(sink.text());
    std::vector<Json> rows;
    hashes_.clear();
    for (std::string line; std::getline(lines, line);) {
      const Json row = Json::parse(line);
      if (row["ph"] == 1) {
        for (const char* key : {"fhash", "newpath_hash", "cmd_hash"}) {
          if (!row["args"].contains(key)) continue;
          EXPECT_TRUE(hashes_.contains(row["args"][key])) << "used before it is told: " << line;
        }
        rows.push_back(row);
      } else {
        EXPECT_EQ(row["ph"], 4);
        if (row["name"] == "FH" || row["name"] == "SH") {
          hashes_[row["args"]["value"]] = row["args"]["name"];
        }
      }
    }
    return rows;
  }

  static constexpr int64_t kStartNs = 1'000'000;

  TimelineMaker maker_;
  ThreadIndex thread_ = maker_.AddThread(10, 11, "python3");
  std::unique_ptr<Timeline> timeline_;
  std::map<std::string, std::string> hashes_;
};

TEST_F(SystemRowsTest, EventsLieAmongTheSpansOfTheirThread) {
  const SpanId span = maker_.Begin(thread_, maker_.AddOperator("aten::add"), kStartNs + 1000);
  SystemEvent call = MakeCall(thread_, "read", kStartNs + 1500, kStartNs + 3000, 5, {3, 0, 8});
  call.file = maker_.AddSystemFile(SystemFileKind::kRegular, "/a\"b\\c\n\x01\xff");
  call.span = span;
  const uint32_t around = maker_.AddSystemEvent(call);
  SystemEvent wait =
      MakeOffCpu(thread_, WaitReason::kIo, kStartNs + 2000, kStartNs + 2500, 100, "read");
  wait.span = span;
  wait.around = around;
  maker_.AddSystemEvent(wait);
  maker_.AddSystemEvent(MakeFault(thread_, true, kStartNs + 3100, kStartNs + 3200));
  maker_.End(thread_, kStartNs + 4000);
  const std::vector<Json> rows = WithPhase(Chrome(), "X");
  ASSERT_EQ(rows.size(), 4u);
  std::vector<std::string> names;
  for (const Json& row : rows) names.push_back(row["cat"].get<std::string>());
  EXPECT_EQ(names, (std::vector<std::string>{"cpu_op", "syscall", "sched", "fault"}));
  EXPECT_EQ(rows[1]["name"], "read");
  EXPECT_EQ(rows[1]["tid"], 11);
  EXPECT_EQ(rows[1]["dur"], 1.5);
  EXPECT_EQ(rows[1]["args"]["ret"], 5);
  EXPECT_EQ(rows[1]["args"]["path"], "/a\"b\\c\n\x01\xEF\xBF\xBD");
  EXPECT_EQ(rows[1]["args"]["Ev Idx"], 1);
  EXPECT_EQ(rows[2]["name"], "io");
  EXPECT_EQ(rows[2]["args"]["run_queue_ns"], 100);
  EXPECT_FALSE(rows[2]["args"].contains("clipped_ns"));
  EXPECT_EQ(rows[3]["name"], "page fault (major)");
}

TEST_F(SystemRowsTest, ARowThatSticksOutIsDrawnToTheEndOfWhatIsAroundIt) {
  maker_.Add(thread_, maker_.AddOperator("aten::add"), kStartNs, kStartNs + 1000);
  SystemEvent call = MakeCall(thread_, "read", kStartNs + 500, kStartNs + 1300, 5);
  call.end = SpanEnd::kTruncated;
  maker_.AddSystemEvent(call);
  maker_.AddSystemEvent(MakeOffCpu(thread_, WaitReason::kIo, kStartNs + 600, kStartNs + 1300));
  const std::vector<Json> rows = WithPhase(Chrome(), "X");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[1]["dur"], 0.5);
  EXPECT_EQ(rows[1]["args"]["clipped_ns"], 300);
  EXPECT_EQ(rows[1]["args"]["end"], "truncated");
  EXPECT_EQ(rows[2]["dur"], 0.4);
  EXPECT_EQ(rows[2]["args"]["clipped_ns"], 300);
}

TEST_F(SystemRowsTest, AThreadRunsBetweenItsTimesOffTheCpu) {
  SystemEvent wait =
      MakeOffCpu(thread_, WaitReason::kIo, kStartNs + 100, kStartNs + 200, 30, "read");
  wait.off_cpu.from_cpu = 2;
  wait.off_cpu.to_cpu = 5;
  wait.off_cpu.uninterruptible = true;
  wait.off_cpu.disk = true;
  maker_.AddSystemEvent(wait);
  SystemEvent preempted =
      MakeOffCpu(thread_, WaitReason::kPreempted, kStartNs + 300, kStartNs + 350, 50);
  preempted.off_cpu.from_cpu = 5;
  maker_.AddSystemEvent(preempted);
  // A thread that was asleep from the beginning on, and one that was created.
  const ThreadIndex asleep = maker_.AddThread(10, 12, "asleep");
  SystemEvent early = MakeOffCpu(asleep, WaitReason::kLock, kStartNs + 360, kStartNs + 400);
  early.open_at_begin = true;
  early.end = SpanEnd::kTruncated;
  maker_.AddSystemEvent(early);
  const ThreadIndex young = maker_.AddThread(10, 13, "young");
  maker_.AddSystemEvent(MakeOffCpu(young, WaitReason::kNew, kStartNs + 370, kStartNs + 380, 10));
  maker_.Add(thread_, maker_.AddOperator("aten::add"), kStartNs + 400, kStartNs + 500);
  const Json events = Chrome();
  EXPECT_EQ(States(events, 11),
            (std::vector<std::string>{"Running 0-100", "D 100-170", "R 170-200", "Running 200-300",
                                      "R 300-350", "Running 350-500"}));
  EXPECT_EQ(States(events, 12), (std::vector<std::string>{"S 360-400"}));
  EXPECT_EQ(States(events, 13), (std::vector<std::string>{"R 370-380"}));
  const std::vector<Json> states = WithPhase(events, "T");
  EXPECT_EQ(states[0]["args"]["cpu"], 2);
  EXPECT_EQ(states[1]["args"]["io_wait"], 1);
  EXPECT_EQ(states[1]["args"]["blocked_function"], "read");
  EXPECT_EQ(states[3]["args"]["cpu"], 5);
  for (const Json& state : states) EXPECT_FALSE(state.contains("cat")) << state;
}

TEST_F(SystemRowsTest, WhereEventsWereLostNothingIsSaidOfTimeOnTheCpu) {
  maker_.AddSystemEvent(MakeOffCpu(thread_, WaitReason::kIo, kStartNs + 100, kStartNs + 200));
  maker_.ledger().system_lost = 1;
  EXPECT_EQ(States(Chrome(), 11), (std::vector<std::string>{"S 100-200"}));
}

TEST_F(SystemRowsTest, RequestsAreAsyncEventsOfTheirOwn) {
  maker_.AddSystemEvent(MakeRequest(thread_, IORING_OP_READ, kStartNs + 100, kStartNs + 300, 64));
  maker_.AddSystemEvent(MakeRequest(thread_, IORING_OP_READ, kStartNs + 200, kStartNs + 400, 64));
  const Json events = Chrome();
  const std::vector<Json> begins = WithPhase(events, "b");
  const std::vector<Json> ends = WithPhase(events, "e");
  ASSERT_EQ(begins.size(), 2u);
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(begins[0]["name"], "io_uring READ");
  EXPECT_EQ(begins[0]["cat"], "io_request");
  EXPECT_EQ(begins[0]["id"], ends[0]["id"]);
  EXPECT_NE(begins[0]["id"], begins[1]["id"]);
  EXPECT_EQ(begins[0]["args"]["ret"], 64);
  EXPECT_TRUE(WithPhase(events, "X").empty());
}

TEST_F(SystemRowsTest, PfwHasTheCallsThatDoIoUnderTheNamesOfLibc) {
  const SystemFileId file = maker_.AddSystemFile(SystemFileKind::kRegular, "/a\"b\n\xff");
  const auto add = [&](const char* name, int64_t at_ns, int64_t result,
                       const std::vector<uint64_t>& arguments) {
    SystemEvent event =
        MakeCall(thread_, name, kStartNs + at_ns, kStartNs + at_ns + 1500, result, arguments);
    event.file = file;
    maker_.AddSystemEvent(event);
  };
  const auto here = static_cast<uint64_t>(AT_FDCWD);
  add("openat", 0, 3, {here, 0, O_CREAT | O_RDWR, 0640});
  add("openat", 2000, 4, {here, 0, O_RDONLY | O_NONBLOCK | O_DIRECTORY, 77});
  add("openat", 4000, 5, {9, 0, O_RDONLY, 0});
  add("lseek", 6000, 10, {3, 10, SEEK_SET});
  add("pread64", 8000, -EIO, {3, 0, 128, 512});
  maker_.AddSystemEvent(MakeCall(thread_, "futex", kStartNs + 9000, kStartNs + 9100, 0));
  SystemEvent rename = MakeCall(thread_, "rename", kStartNs + 10000, kStartNs + 10100, 0);
  rename.call.paths = maker_.AddSystemPaths({.first = "/old", .second = "/new", .address = ""});
  maker_.AddSystemEvent(rename);
  maker_.AddSystemEvent(
      MakeRequest(thread_, IORING_OP_WRITE, kStartNs + 11000, kStartNs + 12000, 9));
  maker_.Add(thread_, maker_.AddOperator("aten::add"), kStartNs + 20000, kStartNs + 21000);
  maker_.Add(thread_, maker_.AddAnnotation("load\"1"), kStartNs + 22000, kStartNs + 25000);
  const std::vector<Json> rows = Pfw();
  std::vector<std::string> names;
  for (const Json& row : rows) {
    names.push_back(row["name"].get<std::string>());
    EXPECT_EQ(row["id"], names.size());
    EXPECT_TRUE(row["ts"].is_number_integer());
    EXPECT_TRUE(row["dur"].is_number_integer());
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"start", "open64", "opendir", "openat", "lseek64", "pread64",
                                      "rename", "io_uring_write", "load\"1", "end"}));
  EXPECT_EQ(rows[1]["cat"], "POSIX");
  EXPECT_EQ(rows[1]["type"], 3);
  EXPECT_EQ(rows[1]["ts"], timeline_->ToUnixNs(kStartNs) / 1000);
  EXPECT_EQ(rows[1]["dur"], 1);
  const Json& open = rows[1]["args"];
  EXPECT_EQ(open["ret"], 3);
  EXPECT_EQ(open["flags"], O_CREAT | O_RDWR);
  EXPECT_EQ(open["mode"], 0640);
  EXPECT_EQ(open["syscall"], "openat");
  EXPECT_EQ(open["dur_ns"], 1500);
  EXPECT_EQ(hashes_[open["fhash"]], "/a\"b\n\xEF\xBF\xBD");
  EXPECT_FALSE(rows[2]["args"].contains("mode"));
  EXPECT_FALSE(rows[3]["args"].contains("syscall"));
  EXPECT_EQ(rows[4]["args"]["whence"], 0);
  EXPECT_EQ(rows[5]["args"]["ret"], -EIO);
  EXPECT_EQ(rows[5]["args"]["errno"], "EIO");
  EXPECT_EQ(rows[5]["args"]["count"], 128);
  EXPECT_EQ(rows[5]["args"]["offset"], 512);
  EXPECT_EQ(hashes_[rows[6]["args"]["fhash"]], "/old");
  EXPECT_EQ(hashes_[rows[6]["args"]["newpath_hash"]], "/new");
  EXPECT_EQ(rows[7]["args"]["ret"], 9);
  EXPECT_EQ(rows.back()["args"]["num_events"], rows.size() - 2);
}

TEST_F(SystemRowsTest, PfwWantsSystemCalls) {
  maker_.AddSystemEvent(MakeOffCpu(thread_, WaitReason::kIo, kStartNs + 100, kStartNs + 200));
  timeline_ = maker_.Finish();
  EXPECT_FALSE(IsRecorded(FormatNeeds::kSystemCalls, *timeline_));
  const absl::StatusOr<const Format*> format = FindFormat("pfw");
  ASSERT_TRUE(format.ok());
  EXPECT_EQ(DefaultFileName(**format, *timeline_), "trace.pfw.gz");
  const Aggregates aggregates = Aggregate(*timeline_, {});
  StringSink sink;
  const absl::Status status = (*format)->write({*timeline_, aggregates, TableOptions()}, sink);
  EXPECT_NE(status.message().find("record with --activities syscalls or io"), std::string::npos);
}

// A job whose DataLoader is fast, or that has none.
TEST_F(SystemRowsTest, DataWaitsOfAJobWithoutAnyAreATableWithoutRows) {
  maker_.info().system.sched = true;
  timeline_ = maker_.Finish();
  const absl::StatusOr<const Format*> format = FindFormat("data-waits");
  ASSERT_TRUE(format.ok());
  const Aggregates aggregates = Aggregate(*timeline_, {});
  StringSink sink;
  const absl::Status status = (*format)->write({*timeline_, aggregates, TableOptions()}, sink);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(std::count(sink.text().begin(), sink.text().end(), '\n'), 1);
  EXPECT_NE(sink.text().find("blocked_ns"), std::string::npos);
}

}  // namespace
}  // namespace proftrace
