// The tuple whose items torch makes values of for a row, from made-up code.
#include "symbols/torch/python_arguments.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "symbols/x86/value_walk.h"
#include "tests/unit/symbols/fake_code.h"

namespace proftrace {
namespace {

constexpr uint64_t kMaker = 0x9000;  // what begins a row
constexpr uint64_t kBefore = 0x9100;
constexpr uint64_t kConvert = 0x9200;
constexpr uint64_t kCalled = 0x9300;  // by the conversion
constexpr char kConversion[] = "_ZN5torch3jit20toTypeInferredIValueEN8pybind116handleE";
constexpr char kTypedConversion[] = "_ZN5torch3jit8toIValueEN8pybind116handleE";

class PythonArgumentsTest : public ::testing::Test {
 protected:
  std::optional<RowInputs> Find(const Code& code) {
    image_.AddStub(kMaker, "maker");
    image_.AddStub(kBefore, "_ZN2at14RecordFunction6beforeEPKcN3c108ArrayRefIKNS3_6IValueEEEl");
    image_.Add(kFakeCodeBase, code.bytes());
    const auto graph = FlowGraph::Build(image_, kFakeCodeBase, kFakeCodeBase + code.bytes().size());
    EXPECT_TRUE(graph.ok()) << graph.status();
    for (uint32_t i = 0; graph.ok() && i < graph->size(); ++i) {
      const FlowNode& node = graph->node(i);
      if (node.is_call && node.instruction.target == kMaker) {
        return FindPythonArguments(image_, *graph, i);
      }
    }
    ADD_FAILURE() << "no call";
    return std::nullopt;
  }
  static void ExpectTuple(const std::optional<RowInputs>& inputs, int base,
                          const std::vector<int32_t>& offsets) {
    ASSERT_TRUE(inputs);
    EXPECT_EQ(inputs->kind, RowInputKind::kPythonArguments);
    ASSERT_EQ(inputs->words.size(), 1u);
    const abi::pt_place& place = inputs->words[0];
    EXPECT_EQ(place.base, base);
    EXPECT_EQ((std::vector<int32_t>{place.offsets, place.offsets + place.count}), offsets);
  }

  FakeCode image_;
};

// After `code` each item that rbx goes over is converted; then the row gets its name.
Code WithLoop(Code code, std::vector<uint8_t> end) {
  return code
      .Bytes({0x48, 0x8b, 0x33})  // mov rsi, [rbx]
      .Call(kConvert)
      .Bytes({0x48, 0x83, 0xc3, 0x08})        // add rbx, 8
      .Bytes({0x4c, 0x39, 0xe3, 0x75, 0xef})  // cmp rbx, r12; jne to the load
      .Call(kBefore)
      .Bytes(std::move(end));
}

// The items are in the object if it is a tuple, and elsewhere if it is a list.
TEST_F(PythonArgumentsTest, ItemsOfATupleThatAreConvertedInALoop) {
  image_.AddStub(kConvert, kConversion);
  Code code;
  code.Bytes({0x53, 0x48, 0x89, 0xd3})  // push rbx; mov rbx, rdx
      .Call(kMaker)
      .Bytes({0x48, 0x8b, 0x03})                     // mov rax, [rbx]
      .Bytes({0x48, 0x8b, 0x50, 0x08})               // mov rdx, [rax+8]
      .Bytes({0x48, 0x8d, 0x58, 0x18})               // lea rbx, [rax+0x18]
      .Bytes({0xf6, 0x82, 0xab, 0, 0, 0, 0x02})      // test byte [rdx+0xab], 2
      .Bytes({0x74, 0x04, 0x48, 0x8b, 0x58, 0x18});  // je +4; mov rbx, [rax+0x18]
  ExpectTuple(Find(WithLoop(code, {0x5b, 0xc3})), 3, {0, 0});
}

// In the distributions' builds the conversion has no name, and is known by what it calls; and the
// tuple itself may be in a register where the row begins.
TEST_F(PythonArgumentsTest, ItemsThatAFunctionWithoutANameConverts) {
  Code begin;
  begin.Call(kMaker)
      .Bytes({0x49, 0x8b, 0x55, 0x08})               // mov rdx, [r13+8]
      .Bytes({0x49, 0x8d, 0x5d, 0x18})               // lea rbx, [r13+0x18]
      .Bytes({0xf6, 0x82, 0xab, 0, 0, 0, 0x02})      // test byte [rdx+0xab], 2
      .Bytes({0x74, 0x04, 0x49, 0x8b, 0x5d, 0x18});  // je +4; mov rbx, [r13+0x18]
  const Code code = WithLoop(begin, {0xc3});
  image_.Add(kConvert, {0xe8, 0xfb, 0x00, 0x00, 0x00, 0xc3});  // call kCalled; ret
  image_.AddStub(kCalled, kTypedConversion);
  ExpectTuple(Find(code), 13, {0});
  image_.AddStub(kCalled, "another");
  EXPECT_FALSE(Find(code));
}

TEST_F(PythonArgumentsTest, AnObjectThatACallMakesIsNotFound) {
  image_.AddStub(kConvert, kConversion);
  image_.AddStub(kCalled, "made");
  EXPECT_FALSE(Find(Code()
                        .Call(kMaker)
                        .Call(kCalled)
                        .Bytes({0x48, 0x89, 0xc6})  // mov rsi, rax
                        .Call(kConvert)
                        .Bytes({0xc3})));
}

// An item in the frame has no object that it was loaded from.
TEST_F(PythonArgumentsTest, AValueOfTheFrameIsNoItem) {
  image_.AddStub(kConvert, kConversion);
  EXPECT_FALSE(Find(Code()
                        .Call(kMaker)
                        .Bytes({0x48, 0x8b, 0x74, 0x24, 0x18})  // mov rsi, [rsp+0x18]
                        .Call(kConvert)
                        .Bytes({0xc3})));
}

}  // namespace
}  // namespace proftrace
