// Exports of Nsight Systems, made by hand with its tables; and captures, of which each row must be
// what the exporter of Chrome's format writes.
#include <gmock/gmock.h>
#include <sqlite3.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "exporters/traces/chrome_trace.h"
#include "tests/unit/fleet_sources/source_files.h"
#include "userspace/aggregate/aggregates.h"
#include "userspace/collectives/json_text.h"
#include "userspace/pipeline/build_timeline.h"
#include "userspace/wire/capture_reader.h"

namespace proftrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;

constexpr char kNsight[] = R"(
  CREATE TABLE META_DATA_EXPORT(name TEXT, value TEXT);
  INSERT INTO META_DATA_EXPORT VALUES('EXPORT_SCHEMA_VERSION', '3.25.0');
  CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT);
  INSERT INTO StringIds VALUES(1, 'cudaLaunchKernel_v7000'), (2, 'void gemm<"x">()'),
    (3, 'read'), (4, 'python'), (5, 'step 3');
  CREATE TABLE TARGET_INFO_SESSION_START_TIME(utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
  INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES(1790857026000000007, '', '');
  CREATE TABLE TARGET_INFO_SYSTEM_ENV(globalVid INT, devStateName TEXT, name TEXT, value TEXT);
  INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES(0, '', 'Hostname', 'node-3');
  CREATE TABLE ThreadNames(nameId INTEGER, priority INTEGER, globalTid INTEGER);
  CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INTEGER, "end" INTEGER, globalTid INTEGER,
    correlationId INTEGER, nameId INTEGER, returnValue INTEGER);
  CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, "end" INTEGER, deviceId INTEGER,
    contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
    demangledName INTEGER, shortName INTEGER, gridX INTEGER);
  CREATE TABLE NVTX_EVENTS(start INTEGER, "end" INTEGER, eventType INTEGER, text TEXT,
    textId INTEGER, globalTid INTEGER, domainId INTEGER);
  CREATE TABLE OSRT_API(start INTEGER, "end" INTEGER, globalTid INTEGER, nameId INTEGER,
    returnValue INTEGER);
)";

// With bits of a machine above the PID's.
std::string GlobalId(int64_t pid, int64_t tid) {
  return std::to_string((int64_t{3} << 48) | (pid << 24) | tid);
}

class OtherSourcesTest : public SourceFiles {
 protected:
  std::string Database(const std::string& name, const std::string& statements) const {
    sqlite3* database = nullptr;
    EXPECT_EQ(sqlite3_open(PathOf(name).c_str(), &database), SQLITE_OK);
    char* error = nullptr;
    EXPECT_EQ(sqlite3_exec(database, statements.c_str(), nullptr, nullptr, &error), SQLITE_OK)
        << error;
    sqlite3_close(database);
    return PathOf(name);
  }
};

TEST_F(OtherSourcesTest, ReadsAnExportOfNsightSystemsByProcess) {
  const std::string path = Database(
      "report", std::string(kNsight) + "INSERT INTO ThreadNames VALUES(4, 0, " + GlobalId(47, 50) +
                    ");" + "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(100, 130, " +
                    GlobalId(47, 50) + ", 9, 1, 0);" +
                    "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(150, 170, 2, 1, 7, 9, " +
                    GlobalId(47, 0) + ", 2, 1, 64);" +
                    "INSERT INTO NVTX_EVENTS VALUES(90, 200, 59, NULL, 5, " + GlobalId(47, 50) +
                    ", 0), (95, NULL, 34, 'mark', NULL, " + GlobalId(47, 50) + ", 0);" +
                    "INSERT INTO OSRT_API VALUES(300, 310, " + GlobalId(48, 48) + ", 3, NULL);");
  absl::StatusOr<std::vector<std::unique_ptr<SourceInput>>> sources = OpenSources(path);
  ASSERT_TRUE(sources.ok()) << sources.status();
  ASSERT_EQ(sources->size(), 2U);
  const SourceFacts& facts = (*sources)[0]->facts();
  EXPECT_EQ(facts.kind, SourceKind::kNsight);
  EXPECT_EQ(facts.clock, SourceClock::kRealtime);
  EXPECT_EQ(facts.host, "node-3");
  EXPECT_THAT(facts.pid, Optional(47));
  EXPECT_THAT(facts.first_ns, Optional(1790857026000000097));
  EXPECT_THAT(facts.last_ns, Optional(1790857026000000207));
  EXPECT_THAT(
      EventsOf((*sources)[0].get()),
      ElementsAre("M thread_name 47/50 {\"name\":\"python\"}",
                  "X cudaLaunchKernel_v7000 47/50 1790857026000000107+30 "
                  "{\"correlation\":9,\"return value\":0}",
                  "X step 3 47/50 1790857026000000097+110 {\"domain\":0}",
                  "i mark 47/50 1790857026000000102+0 {\"domain\":0}",
                  "X void gemm<\\\"x\\\">() 2/7 1790857026000000157+20 "
                  "{\"correlation\":9,\"device\":2,\"context\":1,\"stream\":7,\"grid x\":64}"));
  EXPECT_THAT(EventsOf((*sources)[1].get()), ElementsAre("X read 48/48 1790857026000000307+10 {}"));
}

TEST_F(OtherSourcesTest, SaysWhatAnUnknownSchemaLacks) {
  const std::string renamed =
      Database("renamed", std::string(kNsight) +
                              "ALTER TABLE OSRT_API RENAME COLUMN globalTid TO threadId;"
                              "UPDATE META_DATA_EXPORT SET value = '9.0.0';");
  const std::string message = ErrorOf(renamed);
  EXPECT_THAT(message, HasSubstr("schema version 9.0.0 that is not known: its table OSRT_API has "
                                 "no column globalTid"));
  EXPECT_THAT(ErrorOf(Database("other", "CREATE TABLE t(a);")),
              HasSubstr("is no export of Nsight Systems that is known"));
  // A view could do anything.
  EXPECT_THAT(ErrorOf(Database("view", "CREATE VIEW OSRT_API AS SELECT 1 AS start;")),
              HasSubstr("is no export"));
  EXPECT_THAT(ErrorOf(Write("broken", std::string("SQLite format 3\0", 16) + "xxxx")),
              HasSubstr("cannot be read as a database"));
}

std::string ErrorOfOne(const std::string& path) {
  return std::string(OpenSource(path).status().message());
}

// What the exporter writes of a capture, without times.
std::vector<std::string> ExportedRows(const std::string& path) {
  const auto reader = CaptureReader::Open(path, {});
  EXPECT_TRUE(reader.ok()) << reader.status();
  const auto device = (*reader)->DeviceRecords();
  const auto timeline =
      BuildTimeline((*reader)->metadata(), reader->get(), testing::TempDir(), device.get());
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  const Aggregates aggregates = Aggregate(**timeline, {});
  StringSink sink;
  EXPECT_TRUE(ExportChromeTrace(**timeline, sink, aggregates.step_rows, std::nullopt,
                                aggregates.device_idle, aggregates.python_rows,
                                aggregates.cuda_sync_rows)
                  .ok());
  const nlohmann::json json = nlohmann::json::parse(sink.text());
  const int64_t base_ns =
      json["baseTimeNanoseconds"].get<int64_t>() - (*timeline)->info().window.monotonic_to_unix_ns;
  std::vector<std::string> rows;
  for (const nlohmann::json& event : json["traceEvents"]) {
    // As a double, microseconds from the base have their nanoseconds.
    const int64_t begin_ns = base_ns + std::llround(event["ts"].get<double>() * 1000);
    rows.push_back(std::to_string(begin_ns) + event.value("ph", "") + event.value("name", "") +
                   event["pid"].dump() + event["tid"].dump() +
                   event.value("args", nlohmann::json::object()).dump());
  }
  return rows;
}

TEST_F(OtherSourcesTest, RowsOfACaptureAreThoseOfItsExport) {
  for (const std::string name : {"h100/ddp.ptrec", "mlp/capture.ptrec", "workers/capture.ptrec"}) {
    const std::string path = PROFTRACE_GOLDEN_DIRECTORY "/" + name;
    const std::vector<std::string> expected = ExportedRows(path);
    const auto source = Open(path);
    ASSERT_NE(source, nullptr);
    std::vector<std::string> rows;
    const absl::Status status = source->ForEachEvent([&](const SourceEvent& event) {
      const auto id = [](const SourceId& of) {
        const auto* number = std::get_if<int64_t>(&of);
        return number != nullptr ? nlohmann::json(*number).dump()
                                 : "\"" + std::string(std::get<std::string_view>(of)) + "\"";
      };
      rows.push_back(std::to_string(event.begin_ns.value_or(-1)) + std::string(1, event.phase) +
                     UnescapedJson(event.name) + id(event.pid) + id(event.tid) +
                     nlohmann::json::parse(event.args.empty() ? "{}" : event.args).dump());
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(rows, expected) << name;
    EXPECT_EQ(source->facts().clock, SourceClock::kMonotonic);
    EXPECT_EQ(source->facts().kind, SourceKind::kCapture);
    EXPECT_TRUE(source->facts().pid.has_value());
    EXPECT_FALSE(source->facts().snapshots.empty());
    EXPECT_GE(*source->facts().first_ns, 0);
  }
}

TEST_F(OtherSourcesTest, ACaptureOfSeveralRanksIsAnInputEach) {
  const std::string path = PROFTRACE_GOLDEN_DIRECTORY "/gpu/capture.ptrec";
  const auto sources = OpenSources(path);
  ASSERT_TRUE(sources.ok()) << sources.status();
  ASSERT_EQ(sources->size(), 2U);
  EXPECT_THAT((*sources)[0]->facts().rank, Optional(0));
  EXPECT_THAT((*sources)[1]->facts().rank, Optional(1));
  EXPECT_NE((*sources)[0]->facts().pid, (*sources)[1]->facts().pid);
  EXPECT_THAT(ErrorOfOne(path), HasSubstr("holds 2 processes or ranks"));
}

}  // namespace
}  // namespace proftrace
