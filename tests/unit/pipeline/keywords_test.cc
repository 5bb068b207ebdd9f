// Keyword values of annotations: records in, what torch shows out.
#include <bit>
#include <cstring>

#include "tests/unit/pipeline/timeline.h"
#include "userspace/decode/keyword_format.h"

namespace proftrace {
namespace {

using Words = std::vector<uint64_t>;
using Texts = std::vector<std::string>;
constexpr uint64_t kHandle = 0x1000;

Words Text(std::string_view text, uint64_t width = 0, uint64_t more = 0) {
  Words words((text.size() + 7) / 8 + 1);
  words[0] = text.size() << 32 | width << 8 | more | abi::PT_VALUE_TEXT;
  if (!text.empty()) std::memcpy(&words[1], text.data(), text.size());
  return words;
}

Words Joined(std::initializer_list<Words> parts) {
  Words all;
  for (const Words& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

const Words kUserScope = Joined({Text("scope"), Text("user_scope")});

TEST(KeywordFormatTest, ValuesAreWhatTheyAreInPython) {
  const Words values = Joined({
      Text("int"),
      {static_cast<uint64_t>(-5) << 8 | abi::PT_VALUE_INT},
      Text("wide"),
      {abi::PT_VALUE_WIDE_INT, static_cast<uint64_t>(INT64_MIN)},
      Text("double"),
      {abi::PT_VALUE_DOUBLE, std::bit_cast<uint64_t>(0.5)},
      Text("bool"),
      {1 << 8 | abi::PT_VALUE_BOOL},
      Text("text"),
      Text("sch\xf6n", 1),
      Text("cut"),
      Text("abcdefgh", 0, PT_VALUE_TEXT_IS_CUT),
      Text("texts"),
      {2 << 8 | abi::PT_VALUE_LIST},
      Text("a"),
      Text(""),
      Text("tensor"),
      {abi::PT_VALUE_NULL},
  });
  const auto keywords = FormatKeywords(values, 8);
  ASSERT_TRUE(keywords);
  ASSERT_EQ(keywords->size(), 8u);
  EXPECT_EQ((*keywords)[0].name, "int");
  EXPECT_EQ(std::get<int64_t>((*keywords)[0].value), -5);
  EXPECT_EQ(std::get<int64_t>((*keywords)[1].value), INT64_MIN);
  EXPECT_EQ(std::get<double>((*keywords)[2].value), 0.5);
  EXPECT_EQ(std::get<bool>((*keywords)[3].value), true);
  EXPECT_EQ(std::get<std::string>((*keywords)[4].value), "schön");
  EXPECT_EQ(std::get<std::string>((*keywords)[5].value), "abcdefgh…");
  EXPECT_EQ(std::get<Texts>((*keywords)[6].value), Texts({"a", ""}));
  EXPECT_TRUE(std::holds_alternative<std::monostate>((*keywords)[7].value));
}

TEST(KeywordFormatTest, RefusesWhatDoesNotAddUp) {
  EXPECT_FALSE(FormatKeywords(kUserScope, 2));                 // one is missing
  EXPECT_FALSE(FormatKeywords(kUserScope, 0));                 // one is too many
  EXPECT_FALSE(FormatKeywords(Text("name alone"), 1));         // no value
  EXPECT_FALSE(FormatKeywords(Words{abi::PT_VALUE_NULL}, 1));  // no name
  EXPECT_FALSE(FormatKeywords(Joined({Text("a"), Text("odd", 3)}), 1));
  EXPECT_FALSE(FormatKeywords(Joined({Text("a"), {uint64_t{1} << 40 | abi::PT_VALUE_TEXT}}), 1));
  EXPECT_FALSE(FormatKeywords(Joined({Text("a"), {~uint64_t{0} << 8 | abi::PT_VALUE_LIST}}), 1));
  EXPECT_FALSE(FormatKeywords(Joined({Text("a"), {abi::PT_VALUE_DOUBLE}}), 1));
  EXPECT_FALSE(FormatKeywords(Joined({Text("a"), {abi::PT_VALUE_TENSOR}}), 1));
}

// A row with these keyword values, and no inputs.
std::unique_ptr<Timeline> BuildRow(uint16_t count, const Words& values, bool tell_scope,
                                   uint8_t flags = 0, const std::string& name = "row") {
  RecordMaker maker;
  maker.Inputs(kTid, 8, 1, 1, 0, {});
  maker.Keywords(kTid, 9, 1, 1, count, values, tell_scope, flags);
  maker.Guard(abi::PT_GUARD_BEGIN, kTid, 10, 1, kHandle, 0, 0, name, 0, 1);
  maker.RestOfName(kTid, 10, name);
  maker.GuardEnd(kTid, 20, 1, kHandle);
  return Build(maker);
}

TEST(KeywordsTest, TheScopeMakesAnAnnotation) {
  for (const std::string& name : {std::string("row"), std::string(PT_TEXT_BYTES + 9, 'x')}) {
    const auto timeline = BuildRow(1, kUserScope, /*tell_scope=*/true, 0, name);
    ASSERT_EQ(timeline->span_count(), 1u);
    const Label& label = timeline->label(timeline->span(SpanId{0}).label);
    EXPECT_EQ(label.name, name);
    EXPECT_EQ(label.category, Category::kUserAnnotation);
    EXPECT_EQ(label.scope, Scope::kUserScope);
    ASSERT_NE(timeline->inputs_of(SpanId{0}), nullptr);
    ASSERT_EQ(timeline->inputs_of(SpanId{0})->keywords.size(), 1u);
    EXPECT_EQ(timeline->inputs_of(SpanId{0})->keywords[0].name, "scope");
    EXPECT_EQ(timeline->inputs_of(SpanId{0})->dims, "");
  }
}

TEST(KeywordsTest, AnotherScopeOrAnOlderTorchMakesNone) {
  const Words other = Joined({Text("scope"), Text("function")});
  const Words number = Joined({Text("scope"), {7 << 8 | abi::PT_VALUE_INT}});
  for (const auto& [values, tell_scope] :
       {std::pair{other, true}, {number, true}, {kUserScope, false}}) {
    const auto timeline = BuildRow(1, values, tell_scope);
    const Label& label = timeline->label(timeline->span(SpanId{0}).label);
    EXPECT_EQ(label.category, Category::kCpuOp);
    EXPECT_EQ(label.scope, Scope::kFunction);
    ASSERT_NE(timeline->inputs_of(SpanId{0}), nullptr);
  }
}

TEST(KeywordsTest, ThoseThatCouldNotBeReadAreCountedAndTheInputsAreKept) {
  RecordMaker maker;
  maker.Inputs(kTid, 8, 1, 1, 1, {7 << 8 | abi::PT_VALUE_INT});
  maker.Keywords(kTid, 9, 1, 1, 0, {}, true, abi::PT_INPUTS_FAILED);
  maker.Guard(abi::PT_GUARD_BEGIN, kTid, 10, 1, kHandle, 0, 0, "row", 0, 1);
  maker.GuardEnd(kTid, 20, 1, kHandle);
  const auto timeline = Build(maker);
  ASSERT_NE(timeline->inputs_of(SpanId{0}), nullptr);
  EXPECT_EQ(timeline->inputs_of(SpanId{0})->concrete, R"(["7"])");
  EXPECT_TRUE(timeline->inputs_of(SpanId{0})->keywords.empty());
  EXPECT_EQ(timeline->ledger().inputs_unread, 1u);
}

// The other way round; and more of them than one record has room for.
TEST(KeywordsTest, TheyAreKeptWhereTheInputsCouldNotBeRead) {
  const std::string text(3000, 'y');
  const Words values = Joined({Text("a"), Text(text), Text("scope"), Text("user_scope")});
  RecordMaker maker;
  maker.Inputs(kTid, 8, 1, 1, 1, {}, 0, abi::PT_INPUTS_UNTOLD);
  maker.Keywords(kTid, 9, 1, 1, 2, values, true);
  maker.Guard(abi::PT_GUARD_BEGIN, kTid, 10, 1, kHandle, 0, 0, "row", 0, 1);
  maker.GuardEnd(kTid, 20, 1, kHandle);
  // The next one has none.
  maker.Inputs(kTid, 28, 1, 1, 0, {});
  maker.Guard(abi::PT_GUARD_BEGIN, kTid, 30, 1, kHandle, 0, 0, "row", 0, 1);
  maker.GuardEnd(kTid, 40, 1, kHandle);
  const auto timeline = Build(maker);
  ASSERT_EQ(timeline->span_count(), 2u);
  EXPECT_EQ(timeline->label(timeline->span(SpanId{0}).label).category, Category::kUserAnnotation);
  EXPECT_EQ(timeline->label(timeline->span(SpanId{1}).label).category, Category::kCpuOp);
  ASSERT_NE(timeline->inputs_of(SpanId{0}), nullptr);
  ASSERT_EQ(timeline->inputs_of(SpanId{0})->keywords.size(), 2u);
  EXPECT_EQ(std::get<std::string>(timeline->inputs_of(SpanId{0})->keywords[0].value), text);
  EXPECT_EQ(timeline->inputs_of(SpanId{1}), nullptr);
  EXPECT_EQ(timeline->ledger().inputs_unread, 1u);
}

}  // namespace
}  // namespace proftrace
