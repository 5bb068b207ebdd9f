// Traces in JSON as they are found: of every age of Kineto, of DFTracer, whole and damaged.
#include <gmock/gmock.h>

#include "tests/unit/fleet_sources/source_files.h"

namespace proftrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;

constexpr char kOperator[] =
    R"({"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 7, "tid": 8,)"
    R"( "ts": 5035624916629.589, "dur": 725.635, "args": {"External id": 9}})";
constexpr char kBase[] = R"("baseTimeNanoseconds": 1790857026000000000)";
constexpr int64_t kBegin = 1795892650916629589;

std::string Trace(const std::string& before, const std::string& events,
                  const std::string& behind = "") {
  return "{" + before + (before.empty() ? "" : ", ") + "\"traceEvents\": [" + events + "]" +
         (behind.empty() ? "" : ", ") + behind + "}";
}

class JsonSourcesTest : public SourceFiles {};

TEST_F(JsonSourcesTest, BaseTimeStandsBeforeOrBehindTheEventsOrNowhere) {
  const std::string expected = "X aten::add 7/8 1795892650916629589+725635 {\"External id\": 9}";
  for (const auto& [name, text] : std::vector<std::pair<std::string, std::string>>{
           {"before", Trace(kBase, kOperator)},
           {"behind", Trace("\"schemaVersion\": 1", kOperator, kBase)},
           {"quoted", Trace("\"baseTimeNanoseconds\": \"1790857026000000000\"", kOperator)}}) {
    const auto source = Open(Write(name, text));
    ASSERT_NE(source, nullptr);
    EXPECT_THAT(EventsOf(source.get()), ElementsAre(expected)) << name;
    EXPECT_EQ(source->facts().clock, SourceClock::kRealtime);
    EXPECT_THAT(source->facts().first_ns, Optional(kBegin)) << name;
    EXPECT_THAT(source->facts().last_ns, Optional(kBegin + 725635)) << name;
    EXPECT_EQ(source->facts().resolution_ns, 1);
    EXPECT_THAT(source->facts().pid, Optional(7));
    EXPECT_THAT(source->facts().remarks, IsEmpty());
  }
  const auto absolute = Open(
      Write("absolute",
            Trace("", R"({"ph": "X", "pid": 1, "tid": 2, "ts": 1668000000123456, "dur": 5})")));
  EXPECT_THAT(EventsOf(absolute.get()), ElementsAre("X  1/2 1668000000123456000+5000"));
  EXPECT_EQ(absolute->facts().clock, SourceClock::kRealtime);
  EXPECT_EQ(absolute->facts().resolution_ns, 1000);
}

TEST_F(JsonSourcesTest, TimesFromNowhereAreToldToBe) {
  const auto legacy = Open(Write(
      "legacy",
      R"([{"name": "aten::empty", "ph": "X", "ts": 799, "dur": 28, "tid": 1, "pid": "CPU functions", "args": {}}])"));
  EXPECT_EQ(legacy->facts().clock, SourceClock::kOwn);
  EXPECT_EQ(legacy->facts().kind, SourceKind::kKineto);
  EXPECT_THAT(EventsOf(legacy.get()),
              ElementsAre("X aten::empty 'CPU functions'/1 799000+28000 {}"));
  // The base stood behind the events, and was cut off.
  const std::string whole = Trace("", kOperator, kBase);
  const auto cut = Open(Write("cut", whole.substr(0, whole.size() - 40)));
  EXPECT_EQ(cut->facts().clock, SourceClock::kOwn);
  EXPECT_THAT(cut->facts().remarks,
              ElementsAre(HasSubstr("cut off: its end is missing"), HasSubstr("base time stood")));
}

TEST_F(JsonSourcesTest, TakesTheHeadAndTheRankInAllSpellings) {
  for (const std::string info :
       {R"({"backend": "nccl", "rank": 3, "world_size": 8})",
        R"({"backend": "nccl", "rank": "3", "world_size": "8", "pg_config": "[]"})",
        R"("{\"rank\": 3, \"world_size\": 8}")"}) {
    const auto source =
        Open(Write("trace", Trace("\"a\": 1", kOperator, "\"distributedInfo\": " + info)));
    EXPECT_THAT(source->facts().rank, Optional(3)) << info;
    EXPECT_THAT(source->facts().world_size, Optional(8)) << info;
    EXPECT_EQ(source->facts().head, "\"a\":1,\"distributedInfo\":" + info);
  }
  const auto named = Open(Write("node-1_7.1790857026.pt.trace.json", Trace(kBase, kOperator)));
  EXPECT_EQ(named->facts().host, "node-1");
  const auto other = Open(Write("node-1_8.1790857026.pt.trace.json", Trace(kBase, kOperator)));
  EXPECT_EQ(other->facts().host, "");
}

TEST_F(JsonSourcesTest, KeepsAllThatAnEventHas) {
  const auto source = Open(Write(
      "trace",
      Trace(
          kBase,
          R"({"ph": "f", "id": 5, "pid": "Spans", "tid": "x", "ts": 1.001, "cat": "ac2g", "bp": "e"},)"
          R"({"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "p"}},)"
          R"({"ph": "X", "id": 7, "pid": 18446744073709551615, "ts": "2", "dur": null},)"
          R"({"ph": "X", "ts": 1, "ts": 3, "pid": 1, "k": 1, "k": 2, "name": "a\"\u00e9"})")));
  EXPECT_THAT(EventsOf(source.get()),
              ElementsAre("f  'Spans'/'x' 1790857026000001001+0 id=5 \"bp\":\"e\"",
                          "M process_name 1/0 {\"name\": \"p\"}",
                          "X  '18446744073709551615'/0 1790857026000002000+0 \"id\":7",
                          "X a\\\"\\u00e9 1/0 1790857026000003000+0 \"k\":2"));
}

TEST_F(JsonSourcesTest, MendsOrLeavesOutWhatNoTimelineHasAndSaysSo) {
  const std::string text =
      Trace(kBase,
            "{\"ph\": \"X\", \"ts\": 1, \"args\": {\"o\": NaN, \"p\": -Infinity}},"
            "{\"ph\": \"X\", \"ts\": 2, \"name\": \"\xff\"},"
            "{\"ph\": \"X\", \"ts\": NaN}, {\"ph\": \"X\"}, {\"ts\": 5}, {\"ph\": \"X\", \"ts\": "
            "1e300}, {\"ph\": \"X\", \"ts\": 3, \"dur\": -2}");
  const auto source = Open(Write("trace", text));
  EXPECT_THAT(
      EventsOf(source.get()),
      ElementsAre("X  0/0 1790857026000001000+0 {\"o\": \"NaN\", \"p\": \"-Infinity\"}",
                  "X \xef\xbf\xbd 0/0 1790857026000002000+0", "X  0/0 1790857026000003000+0"));
  EXPECT_EQ(source->facts().events, 3U);
  EXPECT_THAT(source->facts().remarks,
              ElementsAre(HasSubstr("4 rows have no time or no phase that can be read, the first "
                                    "at byte " +
                                    std::to_string(text.find("{\"ph\": \"X\", \"ts\": NaN}"))),
                          HasSubstr("3 rows have what JSON does not allow"),
                          HasSubstr("1 row ends before it begins")));
}

TEST_F(JsonSourcesTest, TakesACutFileUpToItsLastEventAndNamesTheByte) {
  const std::string whole = Trace(kBase, std::string(kOperator) + ",\n" + kOperator);
  const size_t last = whole.find(",\n");
  for (const bool is_packed : {false, true}) {
    std::string text = whole.substr(0, whole.size() - 10);
    if (is_packed) text = GzipMember(text);
    const auto source = Open(Write("trace", text));
    EXPECT_EQ(source->facts().events, 1U);
    EXPECT_THAT(source->facts().remarks,
                ElementsAre(HasSubstr("stands behind byte " + std::to_string(last))));
  }
  // Half of a member of gzip.
  std::string many = "{" + std::string(kBase) + ", \"traceEvents\": [";
  for (int i = 0; i < 5000; ++i) many += std::string(kOperator) + ",\n";
  const std::string packed = GzipMember(many + kOperator + "]}");
  const auto source = Open(Write("half.gz", packed.substr(0, packed.size() / 2)));
  EXPECT_GT(source->facts().events, 1000U);
  EXPECT_THAT(source->facts().remarks, ElementsAre(HasSubstr("the end of its gzip member")));
}

TEST_F(JsonSourcesTest, RefusesGarbageWithItsByteUnlessAskedToSalvage) {
  // Two ranks wrote into one file at once.
  const std::string whole = Trace(kBase, std::string(kOperator) + ", " + kOperator);
  const size_t second = whole.rfind("\"cat\"");
  const std::string mixed = whole.substr(0, second) + "{\"ph\": \"X\"}, " + whole.substr(second);
  const std::string path = Write("mixed.json", mixed);
  EXPECT_THAT(ErrorOf(path), HasSubstr("at byte " + std::to_string(second) + " \"{"));
  const auto source = Open(path, /*salvage=*/true);
  EXPECT_EQ(source->facts().events, 1U);
  EXPECT_THAT(source->facts().remarks, ElementsAre(HasSubstr("left out: ")));
  EXPECT_EQ(EventsOf(source.get()).size(), 1U);
  EXPECT_THAT(ErrorOf(Write("twice.json", whole + whole)), HasSubstr("the end of the file"));
  EXPECT_THAT(ErrorOf(Write("empty.json", "")), HasSubstr("is empty"));
  EXPECT_THAT(ErrorOf(Write("text", "hello"), ExitCode::kUsage), HasSubstr("is neither"));
  EXPECT_THAT(ErrorOf(PathOf("none"), ExitCode::kUsage), HasSubstr("No such file"));
  EXPECT_THAT(ErrorOf(Write("bad.gz", GzipMember(whole) + "garbage")), HasSubstr("is no gzip"));
}

TEST_F(JsonSourcesTest, AnErrorOfWhoTakesEventsIsNotTheFiles) {
  const auto source = Open(Write("trace", Trace(kBase, kOperator)), /*salvage=*/true);
  const absl::Status status = source->ForEachEvent(
      [](const SourceEvent&) { return Fail(ExitCode::kInputDamaged, "enough"); });
  EXPECT_EQ(status.message(), "enough");
}

// DFTracer, of each layout that its versions wrote.
constexpr char kOldRow[] =
    R"({"id":3,"name":"read","cat":"POSIX","pid":47,"tid":47,"ts":1795892679238270,"dur":3,"ph":"X","args":{"hhash":"68","ret":10}})";
constexpr char kNewRow[] =
    R"({"id":3,"name":"read","cat":"POSIX","type":3,"pid":47,"tid":47,"ts":1795892679238270,"dur":3,"ph":1,"args":{"hhash":"68","ret":10}})";
constexpr char kHostRow[] =
    R"({"name":"HH","cat":"dftracer","type":1,"pid":47,"tid":47,"ph":4,"args":{"hhash":"68","name":"node-7","value":"68"}})";

TEST_F(JsonSourcesTest, ReadsDftracerWithAndWithoutBracketsAndInSeveralMembers) {
  const std::string row = kOldRow;
  const std::string host = kHostRow;
  const std::string expected =
      "X read 47/47 1795892679238270000+3000 {\"hhash\":\"68\",\"ret\":10} \"id\":3";
  for (const auto& [name, text] : std::vector<std::pair<std::string, std::string>>{
           {"both.pfw", "[\n" + row + "\n" + host + "\n]"},
           {"open.pfw", "[\n" + row + "\n" + host + "\n"},
           {"none.pfw", row + "\n" + host + "\n"},
           {"commas.pfw", "[\n" + row + ",\n" + host + ",\n"},
           {"cut.pfw", row + "\n" + host + "\n" + row.substr(0, 50)},
           {"members.pfw.gz", GzipMember("[\n" + row + "\n") + GzipMember(host + "\n]")},
           {"torn.pfw.gz", GzipMember("[\n" + row.substr(0, 40)) +
                               GzipMember(row.substr(40) + "\n" + host) +
                               std::string(512, '\0')}}) {
    const auto source = Open(Write(name, text));
    ASSERT_NE(source, nullptr) << name;
    EXPECT_EQ(source->facts().kind, SourceKind::kDftracer) << name;
    EXPECT_EQ(EventsOf(source.get()).front(), expected) << name;
    EXPECT_EQ(source->facts().events, 2U) << name;
    EXPECT_EQ(source->facts().host, "node-7") << name;
    EXPECT_THAT(source->facts().pid, Optional(47)) << name;
    EXPECT_EQ(source->facts().resolution_ns, 1000) << name;
    EXPECT_EQ(source->facts().remarks.size(), name == "cut.pfw" ? 1U : 0U) << name;
  }
}

TEST_F(JsonSourcesTest, ReadsTheNumberedPhasesAndTheUnitOfDftracer2) {
  const std::string counter =
      R"({"name":"cpu","cat":"sys","type":7,"ts":1795892679238271,"ph":2,"pid":47,"tid":47})";
  const auto source =
      Open(Write("new", std::string(kHostRow) + "\n" + kNewRow + "\n" + counter + "\n"));
  EXPECT_EQ(source->facts().kind, SourceKind::kDftracer);
  EXPECT_THAT(
      EventsOf(source.get()),
      ElementsAre("M HH 47/47 {\"hhash\":\"68\",\"name\":\"node-7\",\"value\":\"68\"} \"type\":1",
                  "X read 47/47 1795892679238270000+3000 {\"hhash\":\"68\",\"ret\":10} "
                  "\"type\":3,\"id\":3",
                  "C cpu 47/47 1795892679238271000+0 \"type\":7"));
  // The row that says nanoseconds stands behind others.
  const std::string unit =
      R"({"name":"CM","cat":"dftracer","pid":47,"tid":47,"ph":4,"args":{"name":"time_metric","value":"NS"}})";
  const std::string row =
      R"({"name":"read","cat":"POSIX","pid":47,"tid":47,"ts":1795892679238270111,"dur":3,"ph":1,"args":{"hhash":"6"}})";
  const auto fine = Open(Write("fine", row + "\n" + unit));
  EXPECT_EQ(EventsOf(fine.get()).front(), "X read 47/47 1795892679238270111+3 {\"hhash\":\"6\"}");
  EXPECT_THAT(fine->facts().first_ns, Optional(1795892679238270111));
  EXPECT_EQ(fine->facts().events, 2U);
}

}  // namespace
}  // namespace proftrace
