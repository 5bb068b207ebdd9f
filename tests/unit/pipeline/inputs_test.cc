// What operators are called with: records in, torch's texts out.
#include <bit>

#include "tests/unit/pipeline/timeline.h"
#include "userspace/decode/input_decoder.h"
#include "userspace/decode/input_format.h"

namespace proftrace {
namespace {

constexpr uint64_t kFloat = 6;

std::vector<uint64_t> operator+(std::vector<uint64_t> a, const std::vector<uint64_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// A packed tensor of {size, stride}.
std::vector<uint64_t> Tensor(const std::vector<std::pair<uint64_t, uint64_t>>& dimensions,
                             uint64_t flags = abi::PT_TENSOR_STRIDED, uint64_t type = kFloat) {
  std::vector<uint64_t> words = {(flags | abi::PT_TENSOR_PACKED) << 32 | type << 16 |
                                 dimensions.size() << 8 | abi::PT_VALUE_TENSOR};
  for (const auto& [size, stride] : dimensions) words.push_back(size | stride << 32);
  return words;
}

std::vector<uint64_t> Int(int64_t value) {
  return {static_cast<uint64_t>(value) << 8 | abi::PT_VALUE_INT};
}

std::vector<uint64_t> Double(double value) {
  return {abi::PT_VALUE_DOUBLE, std::bit_cast<uint64_t>(value)};
}

std::vector<uint64_t> List(abi::pt_value kind, uint64_t count) { return {count << 8 | kind}; }

const std::vector<uint64_t> kOther = {abi::PT_VALUE_OTHER};

TEST(InputFormatTest, ShowsWhatTorchShows) {
  const std::vector<uint64_t> values =
      Tensor({{3, 4}, {4, 1}}) + Tensor({}, abi::PT_TENSOR_STRIDED, 4) + kOther + Int(-2) +
      Double(0.25) + std::vector<uint64_t>{1 << 8 | abi::PT_VALUE_BOOL} +
      List(abi::PT_VALUE_LIST, 2) + Int(2) + Int(3) + List(abi::PT_VALUE_TENSORS, 2) +
      Tensor({{2, 1}}) + Tensor({}) +
      std::vector<uint64_t>{abi::PT_VALUE_COMPLEX, std::bit_cast<uint64_t>(1.0),
                            std::bit_cast<uint64_t>(-2.5)} +
      std::vector<uint64_t>{abi::PT_VALUE_WIDE_INT, static_cast<uint64_t>(INT64_MIN),
                            abi::PT_VALUE_WIDE_UINT, ~uint64_t{0}};
  const auto inputs = FormatInputs(values, 11, {}, InputForm());
  ASSERT_TRUE(inputs);
  EXPECT_EQ(inputs->dims, "[[3, 4], [], [], [], [], [], [], [[2], []], [], [], []]");
  EXPECT_EQ(inputs->shapes, "[[3, 4], [], [], [], [], [], [], [], [], [], []]");
  EXPECT_EQ(inputs->strides, "[[4, 1], [], [], [], [], [], [], [[1], []], [], [], []]");
  EXPECT_EQ(inputs->types,
            R"(["float", "long int", "", "Scalar", "Scalar", "Scalar", "ScalarList", )"
            R"("TensorList", "Scalar", "Scalar", "Scalar"])");
  EXPECT_EQ(inputs->concrete, R"(["", "", "", "-2", "0.25", "True", "[2, 3]", "", "1.-2.5j", )"
                              R"("-9223372036854775808", "18446744073709551615"])");
}

// A schedule that passes another number in each step.
TEST(InputDecoderTest, InputsBeyondTheLimitKeepTheirShapes) {
  Ledger ledger;
  InputDecoder decoder(&ledger, /*most_bytes=*/1000);
  std::vector<InputsId> ids;
  for (int i = 0; i < 100; ++i) {
    const std::vector<uint64_t> values = Tensor({{3, 1}}) + Int(i);
    RecordMaker maker;
    maker.Call(kTid, i, 1, 1, 2, values);
    abi::pt_record head{};
    std::memcpy(&head, maker.bytes().data(), sizeof(head));
    decoder.OnCall(head, uint64_t{2} << PT_CALL_SEQUENCE_BITS, maker.bytes());
    bool waits = false;
    ids.push_back(decoder.Take(head, InputForm(), &waits));
  }
  ASSERT_EQ(decoder.unread().size(), 1u);
  const uint64_t grouped = decoder.unread()[0].calls;
  EXPECT_GT(grouped, 90u);
  EXPECT_EQ(ledger.inputs_unread, 0u);
  const std::vector<OperatorInputs> table = decoder.TakeTable();
  EXPECT_EQ(table.size(), 1 + 100 - grouped + 1);
  EXPECT_EQ(table[Raw(ids[0])].concrete, R"(["", "0"])");
  EXPECT_EQ(table[Raw(ids[99])].concrete, R"(["", "*"])");
  EXPECT_EQ(table[Raw(ids[99])].shapes, "[[3], []]");
}

TEST(InputFormatTest, SparseTensorsHaveNoStrides) {
  const auto inputs = FormatInputs(Tensor({{3, 0}, {3, 0}}, 0), 1, {}, InputForm());
  ASSERT_TRUE(inputs);
  EXPECT_EQ(inputs->dims, "[[3, 3]]");
  EXPECT_EQ(inputs->strides, "[[]]");
}

TEST(InputFormatTest, LargeSizesAreNotPacked) {
  const uint64_t header =
      uint64_t{abi::PT_TENSOR_STRIDED} << 32 | kFloat << 16 | 2 << 8 | abi::PT_VALUE_TENSOR;
  const auto inputs =
      FormatInputs(std::vector<uint64_t>{header, 5'000'000'000, 2, 0, 1}, 1, {}, InputForm());
  ASSERT_TRUE(inputs);
  EXPECT_EQ(inputs->dims, "[[5000000000, 2]]");
  EXPECT_EQ(inputs->strides, "[[0, 1]]");
}

TEST(InputFormatTest, OldVersionsShowLess) {
  const std::vector<uint64_t> values =
      List(abi::PT_VALUE_TENSORS, 1) + Tensor({{2, 1}}) + List(abi::PT_VALUE_LIST, 1) + Int(1);
  const auto old = FormatInputs(values, 2, {}, InputFormOf("2.1.2+cpu"));
  ASSERT_TRUE(old);
  EXPECT_EQ(old->dims, "[[], []]");
  EXPECT_EQ(old->strides, "");
  EXPECT_EQ(old->types, R"(["TensorList", "ScalarList"])");
  const auto older = FormatInputs(values, 2, {}, InputFormOf("1.13.0a0"));
  ASSERT_TRUE(older);
  EXPECT_EQ(older->types, R"(["TensorList", ""])");
  InputForm first_of_2 = InputFormOf("1.13.0a0");
  first_of_2.has_whole_lists = true;
  EXPECT_EQ(InputFormOf("2.0.1+cu117"), first_of_2);
  EXPECT_EQ(InputFormOf("2.15.0"), InputForm());
}

// An undefined or nested one, or one with symbolic sizes.
TEST(InputFormatTest, AListWithATensorOfNoShapeShowsNothing) {
  const std::vector<uint64_t> values =
      List(abi::PT_VALUE_TENSORS, 2) + Tensor({{2, 1}}) + kOther + Int(0);
  const auto inputs = FormatInputs(values, 2, {}, InputForm());
  ASSERT_TRUE(inputs);
  EXPECT_EQ(inputs->dims, "[[], []]");
  EXPECT_EQ(inputs->strides, "[[], []]");
  EXPECT_EQ(inputs->types, R"(["", "Scalar"])");
  EXPECT_EQ(inputs->list_type, "");
  const auto old = FormatInputs(values, 2, {}, InputFormOf("1.13.0a0"));
  ASSERT_TRUE(old);
  EXPECT_EQ(old->types, R"(["TensorList", "Scalar"])");
}

TEST(InputFormatTest, RefusesWhatDoesNotAddUp) {
  const InputForm form;
  EXPECT_FALSE(FormatInputs(std::vector<uint64_t>{}, 1, {}, form));  // nothing there
  EXPECT_FALSE(FormatInputs(kOther + kOther, 1, {}, form));          // too much
  EXPECT_FALSE(FormatInputs(Tensor({}, 1, 999), 1, {}, form));       // no such type
  EXPECT_FALSE(FormatInputs(std::vector<uint64_t>{200 << 8 | abi::PT_VALUE_TENSOR}, 1, {}, form));
  EXPECT_FALSE(FormatInputs(List(abi::PT_VALUE_LIST, uint64_t{1} << 50), 1, {}, form));
  EXPECT_FALSE(
      FormatInputs(List(abi::PT_VALUE_LIST, 1) + List(abi::PT_VALUE_LIST, 0), 1, {}, form));
  EXPECT_FALSE(FormatInputs(std::vector<uint64_t>{abi::PT_VALUE_DOUBLE}, 1, {}, form));
  EXPECT_FALSE(FormatInputs(std::vector<uint64_t>{0xff}, 1, {}, form));
  EXPECT_FALSE(FormatInputs(kOther, 0xffffffff, {}, form));
}

TEST(InputsTest, BelongToTheNextBeginOfTheirSite) {
  RecordMaker maker;
  maker.Inputs(kTid, 9, 1, 1, 1, Tensor({{3, 1}}));
  maker.Begin(kTid, 10, 1, 1);
  maker.Begin(kTid, 12, 2, 2);  // has none
  maker.End(kTid, 14, 2, 2);
  maker.End(kTid, 20, 1, 1);
  maker.Inputs(kTid, 29, 1, 1, 1, Tensor({{3, 1}}));
  maker.Begin(kTid, 30, 1, 1);
  maker.End(kTid, 40, 1, 1);
  const auto timeline = Build(maker);
  ASSERT_EQ(timeline->span_count(), 3u);
  ASSERT_NE(timeline->inputs_of(SpanId{0}), nullptr);
  EXPECT_EQ(timeline->inputs_of(SpanId{0})->dims, "[[3]]");
  EXPECT_EQ(timeline->inputs_of(SpanId{1}), nullptr);
  // Equal inputs are one entry.
  EXPECT_EQ(timeline->inputs_of(SpanId{0}), timeline->inputs_of(SpanId{2}));
  EXPECT_EQ(timeline->ledger().inputs_unread, 0u);
}

TEST(InputsTest, BelongToRowsWithAnObjectOfTheirOwn) {
  RecordMaker maker;
  maker.Inputs(kTid, 9, 0, 5, 1, Tensor({{3, 1}}));
  maker.Guard(abi::PT_GUARD_BEGIN, kTid, 10, 5, 0x500, 0, 0, "Cubed");
  maker.GuardEnd(kTid, 20, 5, 0x500);
  maker.Inputs(kTid, 29, 0, 5, 1, Tensor({{4, 1}}));
  maker.Guard(abi::PT_FRAME_BEGIN, kTid, 30, 5, 0x700, 0x70, 2, "forward");
  maker.FrameEnd(kTid, 40, 5, 0x700, 0x70);
  // One whose name comes in pieces.
  maker.Inputs(kTid, 49, 0, 5, 1, Tensor({{5, 1}}));
  maker.Guard(abi::PT_GUARD_BEGIN, kTid, 50, 5, 0x500, 0, 0, std::string(300, 'x'));
  maker.GuardEnd(kTid, 60, 5, 0x500);
  const auto timeline = Build(maker);
  ASSERT_EQ(timeline->span_count(), 3u);
  for (const auto& [span, dims] : {std::pair{0u, "[[3]]"}, {1u, "[[4]]"}, {2u, "[[5]]"}}) {
    ASSERT_NE(timeline->inputs_of(SpanId{span}), nullptr) << span;
    EXPECT_EQ(timeline->inputs_of(SpanId{span})->dims, dims);
  }
  EXPECT_EQ(timeline->ledger().inputs_unread, 0u);
}

// A work's row begins when it is executed, maybe elsewhere; what it works on is known before.
TEST(InputsTest, OfAWorkComeWithItsTitle) {
  RecordMaker maker;
  maker.Inputs(kTid, 9, 0, 5, 1, Tensor({{3, 1}}));
  maker.Guard(abi::PT_WORK_TITLE, kTid, 10, 5, 0x500, 0, 7, "gloo:all_reduce");
  maker.Guard(abi::PT_WORK_BEGIN, kTid + 1, 20, 1, 0x500, 0, 0, "");
  maker.GuardEnd(kTid + 1, 30, 1, 0x500);
  const auto timeline = Build(maker);
  ASSERT_EQ(timeline->span_count(), 1u);
  ASSERT_NE(timeline->inputs_of(SpanId{0}), nullptr);
  EXPECT_EQ(timeline->inputs_of(SpanId{0})->dims, "[[3]]");
}

TEST(InputsTest, WhoseBeginWasLostGoToNobodyElse) {
  RecordMaker maker;
  maker.Inputs(kTid, 9, 1, 1, 1, Tensor({{3, 1}}));
  maker.Begin(kTid, 10, 2, 3);
  maker.End(kTid, 20, 2, 3);
  const auto timeline = Build(maker);
  EXPECT_EQ(timeline->inputs_of(SpanId{0}), nullptr);
  EXPECT_EQ(timeline->ledger().inputs_unread, 1u);
}

TEST(InputsTest, OfACallWithoutArgumentsAreNone) {
  RecordMaker maker;
  maker.Inputs(kTid, 9, 1, 1, 0, {});
  maker.Begin(kTid, 10, 1, 1);
  maker.End(kTid, 20, 1, 1);
  const auto timeline = Build(maker);
  EXPECT_EQ(timeline->inputs_of(SpanId{0}), nullptr);
  EXPECT_EQ(timeline->ledger().inputs_unread, 0u);
}

TEST(InputsTest, GoOnInFurtherRecords) {
  std::vector<uint64_t> values = List(abi::PT_VALUE_TENSORS, 400);
  for (int i = 0; i < 400; ++i) values = values + Tensor({{2, 1}});
  RecordMaker maker;
  maker.Inputs(kTid, 9, 1, 1, 1, values);
  maker.Begin(kTid, 10, 1, 1);
  maker.End(kTid, 20, 1, 1);
  const auto timeline = Build(maker);
  ASSERT_NE(timeline->inputs_of(SpanId{0}), nullptr);
  EXPECT_EQ(timeline->inputs_of(SpanId{0})->dims, "[[]]");  // too long for torch to show
  EXPECT_EQ(timeline->inputs_of(SpanId{0})->types, R"(["TensorList"])");
}

TEST(InputsTest, ComeWithTheBeginInOneRecord) {
  RecordMaker maker;
  maker.Call(kTid, 10, 1, 1, 2, Tensor({{3, 1}}) + Double(0.5), 41);
  maker.Call(kTid, 12, 2, 2, 0, {});
  maker.End(kTid, 14, 2, 2);
  maker.End(kTid, 20, 1, 1);
  maker.Call(kTid, 30, 1, 1, 2, {}, 42, abi::PT_INPUTS_FAILED);
  maker.End(kTid, 40, 1, 1);
  maker.Call(kTid, 50, 1, 1, 1, {0xff});  // made up
  maker.End(kTid, 60, 1, 1);
  const auto timeline = Build(maker);
  ASSERT_EQ(timeline->span_count(), 4u);
  ASSERT_NE(timeline->inputs_of(SpanId{0}), nullptr);
  EXPECT_EQ(timeline->inputs_of(SpanId{0})->dims, "[[3], []]");
  EXPECT_EQ(timeline->inputs_of(SpanId{0})->concrete, R"(["", "0.5"])");
  EXPECT_EQ(timeline->columns().sequence.at(SpanId{0}).number_plus_1, 42);
  EXPECT_EQ(timeline->inputs_of(SpanId{1}), nullptr);
  EXPECT_EQ(timeline->columns().sequence.at(SpanId{1}).number_plus_1, 0);
  EXPECT_EQ(timeline->inputs_of(SpanId{2}), nullptr);
  EXPECT_EQ(timeline->columns().sequence.at(SpanId{2}).number_plus_1, 43);
  EXPECT_EQ(timeline->inputs_of(SpanId{3}), nullptr);
  EXPECT_EQ(timeline->ledger().inputs_unread, 2u);
  ASSERT_FALSE(timeline->info().unsupported.empty());
  EXPECT_EQ(timeline->info().unsupported.back().feature, "inputs of 1 call");
  EXPECT_EQ(timeline->info().unsupported.back().reason, "they could not be read");
}

TEST(InputsTest, FloatingPointArgumentsFollow) {
  const std::vector<uint64_t> values = Tensor({{3, 1}}) +
                                       std::vector<uint64_t>{1 << 8 | abi::PT_VALUE_SPILLED} +
                                       Int(1) + std::vector<uint64_t>{abi::PT_VALUE_SPILLED};
  RecordMaker maker;
  maker.Inputs(kTid, 9, 1, 1, 4, values, 2);
  maker.Begin(kTid, 10, 1, 1);
  maker.SpilledInputs(kTid, 11, 1, {0.5, 1e-5});
  maker.End(kTid, 20, 1, 1);
  maker.Inputs(kTid, 29, 1, 1, 4, values, 2);
  maker.Begin(kTid, 30, 1, 1);  // they do not come
  maker.End(kTid, 40, 1, 1);
  const auto timeline = Build(maker);
  ASSERT_EQ(timeline->span_count(), 2u);
  ASSERT_NE(timeline->inputs_of(SpanId{0}), nullptr);
  EXPECT_EQ(timeline->inputs_of(SpanId{0})->concrete,
            R"(["", "1.0000000000000001e-05", "1", "0.5"])");
  ASSERT_NE(timeline->inputs_of(SpanId{1}), nullptr);
  EXPECT_EQ(timeline->inputs_of(SpanId{1})->concrete, R"(["", "?", "1", "?"])");
}

TEST(InputsTest, ThatCouldNotBeReadAreCounted) {
  RecordMaker maker;
  maker.Inputs(kTid, 9, 1, 1, 1, {}, 0, abi::PT_INPUTS_FAILED);
  maker.Begin(kTid, 10, 1, 1);
  maker.End(kTid, 20, 1, 1);
  maker.Inputs(kTid, 29, 1, 1, 1, {0xff});  // made up
  maker.Begin(kTid, 30, 1, 1);
  maker.End(kTid, 40, 1, 1);
  const auto timeline = Build(maker);
  EXPECT_EQ(timeline->inputs_of(SpanId{0}), nullptr);
  EXPECT_EQ(timeline->inputs_of(SpanId{1}), nullptr);
  EXPECT_EQ(timeline->ledger().inputs_unread, 2u);
}

}  // namespace
}  // namespace proftrace
