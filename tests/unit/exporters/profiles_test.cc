// The files for speedscope and pprof, read back.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exporters/stacks/pprof.h"
#include "exporters/stacks/speedscope.h"
#include "tests/support/protobuf_reader.h"
#include "tests/support/timeline_maker.h"
#include "userspace/aggregate/aggregates.h"

namespace proftrace {
namespace {

// main -> aten::add (10 us) -> aten::empty (2 us of them), twice.
class ProfilesTest : public testing::Test {
 protected:
  void SetUp() override {
    TimelineMaker maker;
    const ThreadIndex thread = maker.AddThread(1, 1, "python3");
    const StackId main = maker.AddFrame(kNoStack, maker.AddCode("a.py", "main", 12), 3);
    for (const int64_t start_ns : {0, 20'000}) {
      const SpanId span = maker.Begin(thread, maker.AddOperator("aten::add"), start_ns);
      ASSERT_TRUE(maker.SetStack(span, main).ok());
      maker.Add(thread, maker.AddOperator("aten::empty"), start_ns + 1'000, start_ns + 3'000);
      maker.End(thread, start_ns + 10'000);
    }
    timeline_ = maker.Finish();
    aggregates_ = Aggregate(*timeline_, {});
  }

  std::unique_ptr<Timeline> timeline_;
  Aggregates aggregates_;
};

TEST_F(ProfilesTest, SpeedscopeHasASampleAPath) {
  StringSink sink;
  ASSERT_TRUE(ExportSpeedscope(*timeline_, aggregates_.stacks, StackWeight::kCount, sink).ok());
  const nlohmann::json json = nlohmann::json::parse(sink.text());
  EXPECT_EQ(json["$schema"], "https://www.speedscope.app/file-format-schema.json");
  std::vector<std::vector<std::string>> samples;
  for (const auto& sample : json["profiles"][0]["samples"]) {
    samples.emplace_back();
    for (const size_t frame : sample) {
      samples.back().push_back(json["shared"]["frames"][frame]["name"]);
    }
  }
  using Sample = std::vector<std::string>;
  EXPECT_EQ(samples, (std::vector<Sample>{{"a.py(12): main", "aten::add"},
                                          {"a.py(12): main", "aten::add", "aten::empty"}}));
  EXPECT_EQ(json["profiles"][0]["weights"], nlohmann::json::parse("[16000, 4000]"));
  EXPECT_EQ(json["profiles"][0]["endValue"], 20'000);
  EXPECT_EQ(json["profiles"][0]["unit"], "nanoseconds");
  ASSERT_EQ(json["profiles"].size(), 2u);
  EXPECT_EQ(json["profiles"][1]["unit"], "none");
  EXPECT_EQ(json["profiles"][1]["weights"], nlohmann::json::parse("[2, 2]"));
  EXPECT_EQ(json["activeProfileIndex"], 1);
  for (const auto& frame : json["shared"]["frames"]) {
    EXPECT_EQ(frame.contains("file"), frame["name"] == "a.py(12): main");
    if (frame.contains("file")) EXPECT_EQ(frame["line"], 12);
  }
}

TEST_F(ProfilesTest, PprofHasASampleAPathTheInnermostFirst) {
  StringSink sink;
  ASSERT_TRUE(ExportPprof(*timeline_, aggregates_.stacks, StackWeight::kSelfCpuTime, sink).ok());
  const ProtobufFields profile = ReadProtobuf(sink.text());
  const std::vector<std::string> strings = profile.Texts(6);
  ASSERT_FALSE(strings.empty());
  EXPECT_EQ(strings[0], "");
  std::vector<std::string> types;
  for (const std::string& type : profile.Texts(1)) {
    types.push_back(strings.at(ReadProtobuf(type).Number(1)) + "/" +
                    strings.at(ReadProtobuf(type).Number(2)));
  }
  EXPECT_EQ(types, (std::vector<std::string>{"self_cpu_time/nanoseconds", "spans/count"}));

  std::map<uint64_t, std::string> functions;
  for (const std::string& bytes : profile.Texts(5)) {
    const ProtobufFields function = ReadProtobuf(bytes);
    const std::string& name = functions[function.Number(1)] = strings.at(function.Number(2));
    if (name != "a.py(12): main") continue;
    EXPECT_EQ(strings.at(function.Number(4)), "a.py");
    EXPECT_EQ(function.Number(5), 12u);
  }
  std::map<uint64_t, std::string> locations;
  for (const std::string& bytes : profile.Texts(4)) {
    const ProtobufFields location = ReadProtobuf(bytes);
    const ProtobufFields line = ReadProtobuf(location.Texts(4).at(0));
    locations[location.Number(1)] = functions.at(line.Number(1));
  }
  std::map<std::string, std::vector<uint64_t>> samples;
  for (const std::string& bytes : profile.Texts(2)) {
    const ProtobufFields sample = ReadProtobuf(bytes);
    std::string path;
    for (const uint64_t id : ReadPackedNumbers(sample.Texts(1).at(0)))
      path += locations.at(id) + ";";
    samples[path] = ReadPackedNumbers(sample.Texts(2).at(0));
  }
  EXPECT_EQ(samples, (std::map<std::string, std::vector<uint64_t>>{
                         {"aten::add;a.py(12): main;", {16'000, 2}},
                         {"aten::empty;aten::add;a.py(12): main;", {4'000, 2}}}));
  EXPECT_EQ(strings.at(profile.Number(14)), "self_cpu_time");
  EXPECT_EQ(profile.Number(9),
            static_cast<uint64_t>(timeline_->ToUnixNs(timeline_->info().window.start_ns)));
}

}  // namespace
}  // namespace proftrace
