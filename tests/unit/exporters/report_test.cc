// The report's page: what it carries, that it is the same each time, and that no name is markup.
#include <absl/strings/escaping.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "exporters/report/packed_columns.h"
#include "exporters/report/report_html.h"
#include "tests/support/report_job.h"
#include "tests/support/timeline_maker.h"
#include "userspace/aggregate/aggregates.h"

namespace proftrace {
namespace {

std::string PageOf(const Timeline& timeline) {
  StringSink sink;
  EXPECT_TRUE(ExportReport(timeline, Aggregate(timeline, {}), sink).ok());
  return sink.text();
}

// What stands in the element that begins with `from`.
std::string Inside(const std::string& page, const std::string& from) {
  const size_t begin = page.find(from) + from.size();
  return page.substr(begin, page.find("</script>", begin) - begin);
}

nlohmann::json FactsOf(const std::string& page) {
  return nlohmann::json::parse(Inside(page, "<script id=\"facts\" type=\"application/json\">"));
}

std::string Unzip(const std::string& packed) {
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, 16 + MAX_WBITS), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string text(size_t{1} << 24, '\0');
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return text;
}

std::string BytesOf(const std::string& page) {
  std::string packed;
  const std::string text = Inside(page, "<script id=\"columns\" type=\"text/plain\">");
  EXPECT_TRUE(absl::Base64Unescape(text, &packed));
  return Unzip(packed);
}

TEST(PackedColumnsTest, NumbersComeBackFromTheirBytes) {
  PackedColumns columns;
  EXPECT_EQ(columns.Text("one"), 0u);
  EXPECT_EQ(columns.Text("two"), 1u);
  EXPECT_EQ(columns.Text("one"), 0u);
  columns.Add("plain", {0, -1, 1, 64, -65});
  columns.Add("deltas", {100, 101, 99}, Packing::kDeltas);
  const OrderedJson index = columns.Finish();
  const auto base64 = columns.Base64();
  ASSERT_TRUE(base64.ok());
  std::string packed;
  ASSERT_TRUE(absl::Base64Unescape(*base64, &packed));
  const std::string expected("\x00\x01\x02\x80\x01\x81\x01\xc8\x01\x02\x03one\0two\0", 19);
  EXPECT_EQ(Unzip(packed), expected);
  EXPECT_EQ(index.dump(), R"({"plain":[0,5,0],"deltas":[7,3,1],"texts":[11,2]})");
}

TEST(PackedColumnsTest, TextsAreShownOnesAndBounded) {
  PackedColumns columns;
  columns.Text(std::string("a\0b\xff\n", 5));
  columns.Text("\xe2\x80\xaegpj.exe");
  columns.Text(std::string(100'000, 'x'));
  const OrderedJson index = columns.Finish();
  const auto base64 = columns.Base64();
  ASSERT_TRUE(base64.ok());
  std::string packed;
  ASSERT_TRUE(absl::Base64Unescape(*base64, &packed));
  const std::string bytes = Unzip(packed);
  EXPECT_LT(bytes.size(), 1000u);
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), '\0'), 3) << "each text ends once";
  EXPECT_EQ(bytes.find("\xe2\x80\xae"), std::string::npos) << "no control of direction";
  EXPECT_NE(bytes.find("\\u202egpj.exe"), std::string::npos);
}

TEST(ReportTest, EqualRecordingsGiveEqualPages) {
  const std::string page = PageOf(*MakeReportJob(30));
  EXPECT_EQ(page, PageOf(*MakeReportJob(30)));
  EXPECT_NE(page, PageOf(*MakeReportJob(31)));
}

TEST(ReportTest, HasTheStepsAndWhyTheyTakeSoLong) {
  const nlohmann::json facts = FactsOf(PageOf(*MakeReportJob(40)));
  EXPECT_EQ(facts["format"], 1);
  EXPECT_TRUE(facts["steps"]["are_steps"]);
  EXPECT_GE(facts["steps"]["count"], 38);
  EXPECT_EQ(facts["verdict"]["about"].get<std::string>().substr(0, 10), "Steps take");
  EXPECT_FALSE(facts["verdict"]["findings"].empty());
  for (const char* column : {"ops.name", "modules.path", "nodes.parent", "memory0.bytes",
                             "files.name", "waits.thread", "rows.start", "windows.step"}) {
    ASSERT_TRUE(facts["columns"].contains(column)) << column;
    EXPECT_GT(facts["columns"][column][1], 0) << column;
  }
}

TEST(ReportTest, NamesAreNeverMarkup) {
  const std::string page = PageOf(*MakeReportJob(12));
  const std::string bytes = BytesOf(page);
  for (const char* name : kHostileNames) EXPECT_EQ(page.find(name), std::string::npos) << name;
  EXPECT_NE(bytes.find(kHostileNames[0]), std::string::npos) << "it is among the texts";
  EXPECT_EQ(bytes.find("\xe2\x80\xae"), std::string::npos);
  const std::string facts = Inside(page, "<script id=\"facts\" type=\"application/json\">");
  EXPECT_EQ(facts.find('<'), std::string::npos);
  EXPECT_EQ(FactsOf(page)["title"], kHostileNames[0]);
}

TEST(ReportTest, AnEmptyRecordingHasAPage) {
  TimelineMaker maker;
  const nlohmann::json facts = FactsOf(PageOf(*maker.Finish()));
  EXPECT_EQ(facts["steps"]["count"], 0);
  EXPECT_TRUE(facts["lanes"].empty());
  EXPECT_TRUE(facts["verdict"]["findings"].empty());
}

TEST(ReportTest, ThePageIsBoundedAndSaysWhatIsLeftOut) {
  const std::unique_ptr<Timeline> timeline = MakeTrainingTimeline(400'000, 2);
  const std::string page = PageOf(*timeline);
  const nlohmann::json facts = FactsOf(page);
  EXPECT_LT(page.size(), 3'000'000u);
  EXPECT_LE(facts["columns"]["rows.start"][1], 90'000) << "spans, and parts of steps";
  EXPECT_FALSE(facts["left_out"].empty());
  EXPECT_FALSE(facts["detail"].empty());
}

TEST(ReportTest, TheCodeIsSmallAndAsksForNothing) {
  TimelineMaker maker;
  const std::string page = PageOf(*maker.Finish());
  EXPECT_LT(page.size(), 150'000u);
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  for (const char* outside : {"http://", "https://", "@import", "url(", "innerHTML"}) {
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  }
}

}  // namespace
}  // namespace proftrace
