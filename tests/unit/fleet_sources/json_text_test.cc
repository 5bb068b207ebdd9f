// JSON in place: ends of values, numbers, repairs; and the splitter, however its bytes come in.
#include "userspace/collectives/json_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "userspace/base/exit_status.h"
#include "userspace/fleet_sources/json_splitter.h"

namespace proftrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;

TEST(JsonTextTest, TellsMicrosecondsToTheNanosecond) {
  EXPECT_THAT(ScaledDecimal("1795892650867753.742", 1000), Optional(1795892650867753742));
  EXPECT_THAT(ScaledDecimal("5035624916629.589", 1000), Optional(5035624916629589));
  EXPECT_THAT(ScaledDecimal("\"12.5\"", 1000), Optional(12500));
  EXPECT_THAT(ScaledDecimal("-0.0014", 1000), Optional(-1));
  EXPECT_THAT(ScaledDecimal("0.0005", 1000), Optional(1));
  EXPECT_THAT(ScaledDecimal("1.5e3", 1000), Optional(1500000));
  EXPECT_THAT(ScaledDecimal("1.7958926508677538E+15", 1000), Optional(1795892650867753800));
  EXPECT_THAT(ScaledDecimal("25e-4", 1000), Optional(3));
  EXPECT_THAT(ScaledDecimal("0.00000000000000000000000000000000001", 1000), Optional(0));
  EXPECT_THAT(ScaledDecimal("1234567890123456789", 1), Optional(1234567890123456789));
  EXPECT_THAT(ScaledDecimal("60.4175", 1000), Optional(60418));
  EXPECT_THAT(ScaledDecimal("7.", 1000), Optional(7000));
  EXPECT_THAT(ScaledDecimal("9223372036854775.807", 1000), Optional(9223372036854775807));
  EXPECT_THAT(ScaledDecimal("123.45600000000000000000000000000000000001", 1000), Optional(123456));
  for (const char* none : {"9223372036854775.808", "1e30", "1e2000000000", "1e-99999999999", "NaN",
                           "", "-", ".5", "1.2.3", "0x10", "null", "{}"}) {
    EXPECT_EQ(ScaledDecimal(none, 1000), std::nullopt) << none;
  }
}

TEST(JsonTextTest, FindsTheEndOfAValueOrWhereItIsWrong) {
  const auto end = [](std::string_view text) {
    JsonFlaws flaws;
    size_t wrong_at = 0;
    const std::optional<size_t> found = JsonValueEnd(text, 0, &flaws, &wrong_at);
    return found ? static_cast<int64_t>(*found) : -1 - static_cast<int64_t>(wrong_at);
  };
  EXPECT_EQ(end("{} "), 2);
  EXPECT_EQ(end("{\"a\": [1, {\"b\": \"]}\"}], \"c\": null},"), 34);
  EXPECT_EQ(end("\"a\\\"b\" "), 6);
  EXPECT_EQ(end("-1.5e+3]"), 7);
  EXPECT_EQ(end("{\"a\" 1}"), -6);
  EXPECT_EQ(end("{\"a\": }"), -7);
  EXPECT_EQ(end("[1, 2"), -6);
  EXPECT_EQ(end("[1 2]"), -4);
  EXPECT_EQ(end("[01x]"), -2);
  EXPECT_EQ(end("{\"a\": {\"b\"}}"), -11);
  EXPECT_EQ(end(std::string(kDeepestJson, '[') + std::string(kDeepestJson, ']')),
            static_cast<int64_t>(2 * kDeepestJson));
  EXPECT_LT(end(std::string(kDeepestJson + 1, '[') + std::string(kDeepestJson + 1, ']')), 0);
}

TEST(JsonTextTest, MendsWhatJsonDoesNotAllow) {
  const std::string text =
      "{\"a\": NaN, \"b\": [-Infinity, inf], \"c\": \"\xff\x80\", \"d\": \"C:\\Users\\n\", \"e\": "
      "\"\x01\"}";
  JsonFlaws flaws;
  size_t wrong_at = 0;
  EXPECT_THAT(JsonValueEnd(text, 0, &flaws, &wrong_at), Optional(text.size()));
  EXPECT_TRUE(flaws.not_finite);
  EXPECT_TRUE(flaws.bad_text);
  EXPECT_EQ(
      RepairedJson(text),
      "{\"a\": \"NaN\", \"b\": [\"-Infinity\", \"inf\"], \"c\": \"\xef\xbf\xbd\xef\xbf\xbd\", "
      "\"d\": \"C:\\\\Users\\n\", \"e\": \"\\u0001\"}");
  JsonFlaws none;
  EXPECT_THAT(JsonValueEnd("\"\xc3\xa9 \\u00e9\"", 0, &none, &wrong_at), Optional(11U));
  EXPECT_FALSE(none.any());
}

TEST(JsonTextTest, UnescapesToUtf8) {
  EXPECT_EQ(UnescapedJson("a\\n\\u00e9\\ud83d\\ude00\\ud800!"),
            "a\n\xc3\xa9\xf0\x9f\x98\x80\xef\xbf\xbd!");
}

struct Split {
  std::vector<std::string> found;
  absl::Status status;
  bool is_cut = false;
  uint64_t whole_bytes = 0;
};

// Gives the text in parts of `part` bytes.
Split SplitInParts(std::string_view text, size_t part,
                   JsonSplitter::Layout layout = JsonSplitter::Layout::kNotKnown) {
  Split split;
  JsonSplitter splitter("file", layout,
                        {[&](std::string_view key, std::string_view value, uint64_t at) {
                           split.found.push_back(std::string(key) + "=" + std::string(value) + "@" +
                                                 std::to_string(at));
                           return absl::OkStatus();
                         },
                         [&](std::string_view event, uint64_t at) {
                           split.found.push_back(std::string(event) + "@" + std::to_string(at));
                           return absl::OkStatus();
                         }});
  for (size_t at = 0; at < text.size() && split.status.ok(); at += part) {
    split.status = splitter.Take(text.substr(at, part));
  }
  if (split.status.ok()) split.status = splitter.Finish();
  split.is_cut = splitter.is_cut();
  split.whole_bytes = splitter.whole_bytes();
  return split;
}

constexpr std::string_view kDocument =
    " {\"a\": 1,\n \"b\": {\"x\": [\"]\\\"}\"]}, \"traceEvents\": [\n{\"ph\": \"}\"},\n"
    "{\"n\": {\"m\": [[{}]]}}, ], \"c\": \"t\\\\\" }\n";

TEST(JsonSplitterTest, CutsADocumentHoweverItsBytesComeIn) {
  for (size_t part = 1; part <= kDocument.size(); ++part) {
    const Split split = SplitInParts(kDocument, part);
    ASSERT_TRUE(split.status.ok()) << part << split.status;
    ASSERT_THAT(split.found,
                ElementsAre("a=1@7", "b={\"x\": [\"]\\\"}\"]}@16", "{\"ph\": \"}\"}@50",
                            "{\"n\": {\"m\": [[{}]]}}@63", "c=\"t\\\\\"@93"))
        << part;
    ASSERT_FALSE(split.is_cut);
  }
}

TEST(JsonSplitterTest, FindsEndsInLongTextsAsByteByByte) {
  // What opens, closes, quotes and escapes, in any order and at any place of a block.
  const std::vector<std::string> pieces = {
      R"("k": "v")", R"("a \" }] b": 1)", R"("\\": [[], {}])", R"("[{": {"x": [{"y": "\\\""}]})",
      R"("a long text without anything in it that would be found by a search": 17)"};
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::string text = "{\"traceEvents\": [";
    std::vector<std::string> events;
    for (int event = 0; event < 8; ++event) {
      std::string one = "{";
      for (uint32_t i = 0, count = random() % 9; i < count; ++i) {
        one +=
            (i == 0 ? "" : ",") + std::string(random() % 5, ' ') + pieces[random() % pieces.size()];
      }
      one += "}";
      events.push_back(one + "@" + std::to_string(text.size()));
      text += one + (event < 7 ? ",\n" : "]}");
    }
    for (const size_t part : {text.size(), size_t{1}, size_t{97}}) {
      const Split split = SplitInParts(text, part);
      ASSERT_TRUE(split.status.ok()) << split.status << text;
      ASSERT_EQ(split.found, events) << part << text;
    }
  }
}

TEST(JsonSplitterTest, TakesATruncatedDocumentUpToItsLastWholeEvent) {
  for (size_t size = 1; size < kDocument.size() - 2; ++size) {
    const Split split = SplitInParts(kDocument.substr(0, size), 7);
    if (size == 1) {
      EXPECT_FALSE(split.status.ok());  // blanks alone
      continue;
    }
    ASSERT_TRUE(split.status.ok()) << size << split.status;
    ASSERT_TRUE(split.is_cut) << size;
    if (size > 61 && size < 83) {
      EXPECT_EQ(split.whole_bytes, 61U) << size;
    }
  }
}

TEST(JsonSplitterTest, TakesEventsAloneWithAnyBracketsAndCommas) {
  for (const std::string_view text :
       {"[{\"a\":1},{\"b\":2}]", "[\n{\"a\":1}\n{\"b\":2}\n", "{\"a\":1}\n{\"b\":2}",
        "[{\"a\":1},\n{\"b\":2},\n]\n", "[{\"a\":1}\n]\n[\n{\"b\":2}]"}) {
    const Split split = SplitInParts(text, 3, JsonSplitter::Layout::kEvents);
    EXPECT_TRUE(split.status.ok()) << text << split.status;
    EXPECT_EQ(split.found.size(), 2U) << text;
    EXPECT_FALSE(split.is_cut) << text;
  }
  const Split cut = SplitInParts("[\n{\"a\":1}\n{\"b\":", 3, JsonSplitter::Layout::kEvents);
  EXPECT_EQ(cut.found.size(), 1U);
  EXPECT_TRUE(cut.is_cut);
  EXPECT_EQ(cut.whole_bytes, 9U);
}

TEST(JsonSplitterTest, SaysAtWhichByteItIsNoTrace) {
  const auto message = [](std::string_view text) {
    const Split split = SplitInParts(text, 5);
    EXPECT_EQ(ExitCodeOf(split.status), ExitCode::kInputDamaged) << text;
    return std::string(split.status.message());
  };
  EXPECT_THAT(message("{\"traceEvents\": [{}, 5]}"), HasSubstr("at byte 21 \"5]}\" stands"));
  EXPECT_THAT(message("{\"a\" 1}"), HasSubstr("at byte 5 "));
  EXPECT_THAT(message("{\"a\": 1} {\"a\": 2}"), HasSubstr("at byte 9 "));
  EXPECT_THAT(message("{a: 1}"), HasSubstr("at byte 1 "));
  EXPECT_THAT(message("{\"a\": ,}"), HasSubstr("at byte 6 "));
  EXPECT_THAT(message("hello"), HasSubstr("at byte 0 "));
}

TEST(JsonSplitterTest, RefusesAnEventThatIsTooLongAndKeepsNoMore) {
  const std::string begin = "{\"traceEvents\": [{\"a\": \"";
  JsonSplitter splitter(
      "file", JsonSplitter::Layout::kNotKnown,
      {[](auto...) { return absl::OkStatus(); }, [](auto...) { return absl::OkStatus(); }});
  ASSERT_TRUE(splitter.Take(begin).ok());
  const std::string more(1 << 20, 'x');
  absl::Status status;
  int parts = 0;
  for (; status.ok() && parts < 100; ++parts) status = splitter.Take(more);
  EXPECT_EQ(parts, 16);
  EXPECT_THAT(std::string(status.message()), HasSubstr("begins at byte 17"));
}

}  // namespace
}  // namespace proftrace
