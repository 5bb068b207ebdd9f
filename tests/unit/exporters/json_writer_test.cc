#include "exporters/sinks/json_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "exporters/sinks/output_file.h"

namespace proftrace {
namespace {

JsonText Members() { return JsonText(StringText(), JsonSpacing::kSpaced, JsonRoot::kMembers); }

TEST(JsonWriterTest, WritesCommasColonsAndBlanksAsKinetoDoes) {
  JsonText json{StringText()};
  json.BeginObject();
  json.Key("a").Integer(-1);
  json.Key("b").BeginArray();
  json.BeginObject();
  json.EndObject();
  json.Bool(true);
  json.Null();
  json.EndArray();
  json.Key("ts").Microseconds(-1'234'567);
  json.Key("x").Word("y");
  json.EndObject();
  EXPECT_EQ(json.Done().Take(), R"({"a": -1, "b": [{}, true, null], "ts": -1234.567, "x": "y"})");
}

TEST(JsonWriterTest, TightSpacingHoldsForWhatIsDirectlyWithin) {
  JsonText json(StringText(), JsonSpacing::kTight);
  json.BeginObject(JsonSpacing::kTight);
  json.Key("a").Integer(1u);
  json.Key("args").BeginObject();
  json.Key("b").Integer(uint64_t{18'446'744'073'709'551'615u});
  json.Key("c").BeginArray(JsonSpacing::kTight);
  json.Integer(1);
  json.Integer(2);
  json.EndArray();
  json.Key("d").Integer(3);
  json.EndObject();
  json.Key("e").Integer(std::numeric_limits<int64_t>::min());
  json.EndObject();
  EXPECT_EQ(
      json.Done().Take(),
      R"({"a":1,"args":{"b": 18446744073709551615, "c": [1,2], "d": 3},"e":-9223372036854775808})");
}

TEST(JsonWriterTest, LinesEndWhereTheCallerSays) {
  StringSink sink;
  TextWriter writer(sink);
  JsonStream json(writer);
  json.BeginObject();
  json.Line().Key("list").BeginArray();
  json.Line("  ").Integer(1);
  json.Line("  ").Integer(2);
  json.EndArray();
  json.Line().Key("none").BeginArray();
  json.EndArray();
  json.EndLine();
  json.EndObject();
  json.EndLine();
  ASSERT_TRUE(json.Done().Flush().ok());
  EXPECT_EQ(sink.text(), "{\n\"list\": [\n  1,\n  2],\n\"none\": []\n}\n");
}

TEST(JsonWriterTest, MembersOfOthersGetTheirCommas) {
  JsonText json = Members();
  json.Members("");
  json.Members(R"("a": 1, "b": 2)");
  json.Key("c").Raw("[3]");
  json.Members("");
  json.Members(R"("d": 4)");
  EXPECT_EQ(json.Done().Take(), R"("a": 1, "b": 2, "c": [3], "d": 4)");
  EXPECT_EQ(Members().Done().Take(), "");
}

// Names are whatever bytes a job had: control characters, quotes, halves of UTF-8, escape sequences
// of terminals.
TEST(JsonWriterTest, HostileNamesAreReadBack) {
  const std::string names[] = {std::string("a\"b\\c\n\t\r\0d", 10),
                               "\x1b[31mred",
                               "\xff\xc3half",
                               "</script><!--",
                               "\xE2\x80\xAE right to left",
                               "日本語",
                               ""};
  JsonText json{StringText()};
  json.BeginArray();
  for (const std::string& name : names) json.String(name);
  json.EndArray();
  const std::string text = json.Done().Take();
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const nlohmann::json read = nlohmann::json::parse(text);
  ASSERT_EQ(read.size(), std::size(names));
  for (size_t i = 0; i < std::size(names); ++i) {
    EXPECT_EQ(read[i].get<std::string>(), ToValidUtf8(names[i]));
  }
}

TEST(JsonWriterTest, RealsHaveTheDigitsOfAFloatAndAreAlwaysJson) {
  EXPECT_EQ(JsonReal(0.1f), "0.1");
  EXPECT_EQ(JsonReal(2), "2");
  EXPECT_EQ(JsonReal(1e300), "1e+300");
  EXPECT_EQ(JsonReal(std::numeric_limits<double>::infinity()), "0");
  EXPECT_EQ(JsonReal(std::nan("")), "0");
}

TEST(JsonWriterTest, ARowCountsOnlyOnceItIsCommitted) {
  StringSink sink;
  TextWriter writer(sink);
  JsonRow left_out(ReservedText(&writer, 64));
  left_out.BeginObject();
  JsonRow row(ReservedText(&writer, 64));
  row.BeginObject();
  row.Key("a").Integer(1);
  row.Key("b").Microseconds(1500);
  row.EndObject();
  row.Done().Commit(",\n");
  ASSERT_TRUE(writer.Flush().ok());
  EXPECT_EQ(sink.text(), "{\"a\": 1, \"b\": 1.500},\n");
}

TEST(JsonWriterDeathTest, WhatIsOpenMustBeClosed) {
  const auto open = [] {
    JsonText json{StringText()};
    json.BeginObject();
    return json.Done().Take();
  };
  EXPECT_DEATH(open(), "still open");
  const auto wrong_bracket = [] {
    JsonText json{StringText()};
    json.BeginObject();
    json.EndArray();
  };
  EXPECT_DEATH(wrong_bracket(), "wrong bracket");
  const auto nothing_open = [] {
    JsonText json{StringText()};
    json.EndObject();
  };
  EXPECT_DEATH(nothing_open(), "nothing is open");
}

TEST(JsonWriterDeathTest, ObjectsHaveKeysAndArraysHaveNone) {
  const auto no_key = [] {
    JsonText json{StringText()};
    json.BeginObject();
    json.Integer(1);
  };
  EXPECT_DEATH(no_key(), "without a key");
  const auto key_in_array = [] {
    JsonText json{StringText()};
    json.BeginArray();
    json.Key("a");
  };
  EXPECT_DEATH(key_in_array(), "outside of an object");
  const auto key_alone = [] {
    JsonText json = Members();
    json.Key("a");
    json.Key("b");
  };
  EXPECT_DEATH(key_alone(), "no value");
}

}  // namespace
}  // namespace proftrace
