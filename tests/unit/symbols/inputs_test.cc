// Where arguments of operators are, and how torch's objects lie in memory.
#include <gtest/gtest.h>

#include "symbols/torch/call_arguments.h"
#include "symbols/torch/torch_layout.h"
#include "symbols/x86/saved_doubles.h"
#include "tests/unit/symbols/fake_code.h"
#include "tests/unit/symbols/fake_memory.h"

namespace proftrace {
namespace {

constexpr uint8_t kNowhere = abi::PT_ARGUMENT_NOWHERE;
constexpr uint8_t kVector = abi::PT_ARGUMENT_VECTOR_REGISTER;
constexpr uint8_t kStack = abi::PT_ARGUMENT_STACK;

SchemaArgument Argument(const std::string& type, bool is_write = false) {
  SchemaArgument argument;
  argument.type = argument.element_type = type;
  if (type.ends_with("[]")) {
    argument.is_list = true;
    argument.element_type = type.substr(0, type.size() - 2);
  }
  if (is_write) {
    argument.alias.emplace();
    argument.alias->is_write = true;
  }
  return argument;
}

OperatorSchema Schema(const std::vector<std::string>& arguments,
                      std::vector<SchemaArgument> returns = {Argument("Tensor")}) {
  OperatorSchema schema;
  for (const std::string& type : arguments) schema.arguments.push_back(Argument(type));
  schema.returns = std::move(returns);
  return schema;
}

TEST(CallArgumentsTest, AResultByAddressTakesTheFirstRegister) {
  // at::_ops::add_Tensor::call(at::Tensor const&, at::Tensor const&, c10::Scalar const&)
  const char* symbol = "_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE";
  const auto places =
      PlaceArguments(symbol, Schema({"Tensor", "Tensor", "Scalar"}), OptionalForm::kStd);
  ASSERT_TRUE(places);
  EXPECT_EQ((*places)[0].kind, abi::PT_ARGUMENT_TENSOR);
  EXPECT_EQ((*places)[0].place, abi::PT_RSI);
  EXPECT_EQ((*places)[1].place, abi::PT_RDX);
  EXPECT_EQ((*places)[2].kind, abi::PT_ARGUMENT_SCALAR);
  EXPECT_EQ((*places)[2].place, abi::PT_RCX);
  // One that returns its argument does not.
  const auto in_place =
      PlaceArguments(symbol, Schema({"Tensor", "Tensor", "Scalar"}, {Argument("Tensor", true)}),
                     OptionalForm::kStd);
  ASSERT_TRUE(in_place);
  EXPECT_EQ((*in_place)[0].place, abi::PT_RDI);
}

TEST(CallArgumentsTest, DoublesGoToVectorRegisters) {
  // dropout(Tensor const&, double, bool)
  const auto places = PlaceArguments("_ZN2at4_ops7dropout4callERKNS_6TensorEdb",
                                     Schema({"Tensor", "float", "bool"}), OptionalForm::kStd);
  ASSERT_TRUE(places);
  EXPECT_EQ((*places)[1].kind, abi::PT_ARGUMENT_DOUBLE);
  EXPECT_EQ((*places)[1].place, kVector);
  EXPECT_EQ((*places)[2].place, abi::PT_RDX);
}

TEST(CallArgumentsTest, OptionalsAreSplitAsTheirFormSays) {
  // at::_ops::x::call(at::Tensor const&, optional<double>, optional<long>, optional<bool>)
  const auto schema = Schema({"Tensor", "float", "int", "bool"});
  const auto std_form = PlaceArguments("_ZN2at4_ops1x4callERKNS_6TensorESt8optionalIdES5_IlES5_IbE",
                                       schema, OptionalForm::kStd);
  ASSERT_TRUE(std_form);
  EXPECT_EQ((*std_form)[1].place, kVector);
  EXPECT_EQ((*std_form)[1].flag, abi::PT_RDX);
  EXPECT_EQ((*std_form)[2].place, abi::PT_RCX);
  EXPECT_EQ((*std_form)[2].flag, abi::PT_R8);
  EXPECT_EQ((*std_form)[3].place, abi::PT_R9);
  EXPECT_EQ((*std_form)[3].flag_offset, 1);
  EXPECT_EQ((*std_form)[3].value_offset, 0);
  const auto c10_form =
      PlaceArguments("_ZN2at4_ops1x4callERKNS_6TensorEN3c108optionalIdEENS6_IlEENS6_IbEE", schema,
                     OptionalForm::kC10);
  if (c10_form) {  // only when the name demangles as intended
    EXPECT_EQ((*c10_form)[1].flag, abi::PT_RDX);
    EXPECT_EQ((*c10_form)[1].place, abi::PT_RCX);
  }
  // A name of the other form is not taken for this one.
  EXPECT_FALSE(PlaceArguments("_ZN2at4_ops1x4callERKNS_6TensorESt8optionalIdES5_IlES5_IbE", schema,
                              OptionalForm::kC10));
}

TEST(CallArgumentsTest, TwoWordsThatDoNotFitGoToTheStackTogether) {
  // at::_ops::x::call(ArrayRef<long> x3, bool): rsi rdx, rcx r8, stack, r9.
  const auto places =
      PlaceArguments("_ZN2at4_ops1x4callEN3c108ArrayRefIlEES4_S4_b",
                     Schema({"int[]", "int[]", "int[]", "bool"}), OptionalForm::kStd);
  ASSERT_TRUE(places);
  EXPECT_EQ((*places)[1].place, abi::PT_RCX);
  EXPECT_EQ((*places)[1].second, abi::PT_R8);
  EXPECT_EQ((*places)[2].place, kStack);
  EXPECT_EQ((*places)[2].second, kStack + 1);
  EXPECT_EQ((*places)[3].place, abi::PT_R9);
  EXPECT_EQ((*places)[3].flag, kNowhere);
}

TEST(CallArgumentsTest, OptionalListsAreInMemoryOrTwoWords) {
  // sum_dim_IntList(Tensor const&, OptionalArrayRef<long>, bool, optional<ScalarType>)
  const char* symbol =
      "_ZN2at4_ops15sum_dim_IntList4callERKNS_6TensorEN3c1016OptionalArrayRefIlEEb"
      "St8optionalINS5_10ScalarTypeEE";
  const auto schema = Schema({"Tensor", "int[]", "bool", "ScalarType"});
  const auto std_form = PlaceArguments(symbol, schema, OptionalForm::kStd);
  ASSERT_TRUE(std_form);
  EXPECT_EQ((*std_form)[1].place, kStack);
  EXPECT_EQ((*std_form)[1].second, kStack + 1);
  EXPECT_EQ((*std_form)[1].flag, kStack + 2);
  EXPECT_EQ((*std_form)[2].place, abi::PT_RDX);
  const std::string plain = "_ZN2at4_ops1x4callERKNS_6TensorEN3c1016OptionalArrayRefIlEEb";
  const auto c10_form =
      PlaceArguments(plain, Schema({"Tensor", "int[]", "bool"}), OptionalForm::kC10);
  ASSERT_TRUE(c10_form);
  EXPECT_EQ((*c10_form)[1].place, abi::PT_RDX);
  EXPECT_EQ((*c10_form)[1].flag, abi::PT_ARGUMENT_NULL_IS_NONE);
  EXPECT_EQ((*c10_form)[2].place, abi::PT_R8);
}

TEST(CallArgumentsTest, RefusesWhatItDoesNotKnow) {
  const auto refuses = [](const char* symbol, const OperatorSchema& schema) {
    return !PlaceArguments(symbol, schema, OptionalForm::kStd).has_value();
  };
  const char* dropout = "_ZN2at4_ops7dropout4callERKNS_6TensorEdb";
  EXPECT_TRUE(refuses("not mangled", Schema({"Tensor"})));
  EXPECT_TRUE(refuses(dropout, Schema({"Tensor", "float"})));          // another number
  EXPECT_TRUE(refuses(dropout, Schema({"float", "Tensor", "bool"})));  // another order
  EXPECT_TRUE(refuses(dropout, Schema({"Tensor", "float", "bool"}, {Argument("NewType")})));
  EXPECT_TRUE(refuses("_ZN2at4_ops1x4callENS_5NovelE", Schema({"Novel"})));
}

SavedDoubles Saved(std::vector<uint8_t> bytes) {
  FakeCode image;
  const uint64_t end = 0x1000 + bytes.size();
  image.Add(0x1000, std::move(bytes));
  const auto graph = FlowGraph::Build(image, 0x1000, end);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return FindSavedDoubles(*graph);
}

TEST(SavedDoublesTest, FindsThemInTheFrame) {
  // push rbx; sub rsp, 0x40; movsd [rsp+8], xmm0; movsd [rsp+0x10], xmm1; test al, al; jne +1; nop;
  // ret
  const SavedDoubles saved =
      Saved({0x53, 0x48, 0x83, 0xec, 0x40, 0xf2, 0x0f, 0x11, 0x44, 0x24, 0x08, 0xf2,
             0x0f, 0x11, 0x4c, 0x24, 0x10, 0x84, 0xc0, 0x75, 0x01, 0x90, 0xc3});
  EXPECT_EQ(saved.address, 0x1013u);
  ASSERT_GE(saved.saved.size(), 2u);
  EXPECT_TRUE(saved.saved[0].is_saved);
  EXPECT_EQ(saved.saved[0].offset, 8);
  EXPECT_TRUE(saved.saved[1].is_saved);
  EXPECT_EQ(saved.saved[1].offset, 0x10);
  EXPECT_FALSE(saved.saved[2].is_saved);
}

TEST(SavedDoublesTest, FindsThemByTheFramePointer) {
  // push rbp; mov rbp, rsp; sub rsp, 0x40; movsd [rbp-0xf0], xmm0; test al, al; jne +1; nop; ret
  const SavedDoubles saved =
      Saved({0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x40, 0xf2, 0x0f, 0x11,
             0x85, 0x10, 0xff, 0xff, 0xff, 0x84, 0xc0, 0x75, 0x01, 0x90, 0xc3});
  EXPECT_EQ(saved.address, 0x1012u);
  ASSERT_FALSE(saved.saved.empty());
  EXPECT_TRUE(saved.saved[0].by_frame_pointer);
  EXPECT_EQ(saved.saved[0].offset, -0xf0);
}

TEST(SavedDoublesTest, ForgetsThemWhenTheStackPointerMoves) {
  // movsd [rsp+8], xmm0; push rbx; test al, al; jne +1; nop; ret: the push is passed before it
  const SavedDoubles saved =
      Saved({0xf2, 0x0f, 0x11, 0x44, 0x24, 0x08, 0x53, 0x84, 0xc0, 0x75, 0x01, 0x90, 0xc3});
  EXPECT_EQ(saved.address, 0x1009u);
  ASSERT_FALSE(saved.saved.empty());
  EXPECT_FALSE(saved.saved[0].is_saved);
}

TEST(SavedDoublesTest, HasNoPlaceWhereNothingIsSaved) {
  EXPECT_EQ(Saved({0x53, 0x84, 0xc0, 0x75, 0x01, 0x90, 0xc3}).address, 0u);
}

constexpr uint64_t kTensorType = 0x5000;

// An UndefinedTensorImpl whose key_set_ is at `key_set_offset`.
void PutUndefined(FakeMemory* memory, uint64_t address, uint64_t key_set_offset, uint64_t type) {
  for (uint64_t offset = 0; offset < 200; offset += 8) memory->PutWord(address + offset, 0x77);
  const uint64_t sizes = address + key_set_offset - 112;
  memory->PutWord(sizes, 1);
  memory->PutWord(sizes + 8, 0);
  memory->PutWord(sizes + 48, 1);
  memory->PutWord(sizes + 88, 0);
  memory->PutWord(sizes + 96, 0);
  memory->PutWord(sizes + 104, type | uint64_t{0x2543} << 40);
  memory->PutWord(kTensorType, 0x6000);
}

SchemaReading Reading(uint32_t bool_tag) {
  SchemaReading reading;
  reading.bool_tag = bool_tag;
  reading.tensor_type = kTensorType;
  return reading;
}

TEST(TorchLayoutTest, IsTheOneThatTheUndefinedTensorHas) {
  FakeMemory memory;
  PutUndefined(&memory, 0x1000, 176, 46);
  const TorchLayout found = FindTorchLayout(memory, "2.11.0+cpu", 0x1000, Reading(10));
  EXPECT_EQ(found.refusal, "");
  EXPECT_EQ(found.layout.key_set_offset, 176);
  EXPECT_EQ(found.layout.dtypes, 46);
  EXPECT_EQ(found.layout.value_uint_tag, 6);
  EXPECT_EQ(found.layout.tensor_vtable, 0x6000u);
  EXPECT_EQ(found.layout.symbolic_bit, 52);
  EXPECT_EQ(found.optional_form, OptionalForm::kStd);
  FakeMemory old;
  PutUndefined(&old, 0x1000, 184, 18);
  const TorchLayout older = FindTorchLayout(old, "1.13.0a0", 0x1000, Reading(8));
  EXPECT_EQ(older.refusal, "");
  EXPECT_EQ(older.optional_form, OptionalForm::kC10);
  EXPECT_EQ(older.layout.object_header, 24);
  // Between both: the larger objects, and the optionals of the standard library.
  const TorchLayout between = FindTorchLayout(old, "2.2.2+cu121", 0x1000, Reading(9));
  EXPECT_EQ(between.refusal, "");
  EXPECT_EQ(between.optional_form, OptionalForm::kStd);
  EXPECT_EQ(between.layout.object_header, 24);
  EXPECT_EQ(between.layout.scalar_bool_tag, 3);
}

TEST(TorchLayoutTest, IsRefusedWhereAnythingIsNotAsExpected) {
  FakeMemory memory;
  PutUndefined(&memory, 0x1000, 176, 46);
  EXPECT_NE(FindTorchLayout(memory, "2.16.0", 0x1000, Reading(9)).refusal, "");
  EXPECT_NE(FindTorchLayout(memory, "3.0", 0x1000, Reading(10)).refusal, "");
  EXPECT_NE(FindTorchLayout(memory, "", 0x1000, Reading(10)).refusal, "");
  EXPECT_NE(FindTorchLayout(memory, "2.11.0", 0, Reading(10)).refusal, "");
  EXPECT_NE(FindTorchLayout(memory, "2.11.0", 0x9000, Reading(10)).refusal, "");
  EXPECT_NE(FindTorchLayout(memory, "2.11.0", 0x1000, Reading(0)).refusal, "");
  PutUndefined(&memory, 0x2000, 176, 300);  // no type has such a number
  EXPECT_NE(FindTorchLayout(memory, "2.11.0", 0x2000, Reading(10)).refusal, "");
  PutUndefined(&memory, 0x3000, 176, 46);
  memory.PutWord(0x3000 + 176 - 8, 46 | uint64_t{0x4543} << 40);  // other flags
  EXPECT_NE(FindTorchLayout(memory, "2.11.0", 0x3000, Reading(10)).refusal, "");
}

}  // namespace
}  // namespace proftrace
