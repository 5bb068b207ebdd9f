#include <gtest/gtest.h>

#include "bpf/abi/records.h"
#include "symbols/x86/argument_use.h"
#include "tests/unit/symbols/fake_code.h"

namespace proftrace {
namespace {

constexpr uint64_t kBase = 0x1000;
constexpr uint64_t kCallbacks = 0x9000;

std::optional<BoxedArguments> Arguments(std::vector<uint8_t> bytes) {
  FakeCode image;
  const uint64_t end = kBase + bytes.size();
  image.Add(kBase, std::move(bytes));
  const auto graph = FlowGraph::Build(image, kBase, end);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return FindBoxedArguments(*graph);
}

TEST(BoxedArgumentsTest, FindsTheFormWithoutTheDispatcher) {
  // mov rax, [rdi]; mov rcx, [rax+0x1688]; mov rdx, [rsi+8]; ret
  const auto found = Arguments(
      {0x48, 0x8b, 0x07, 0x48, 0x8b, 0x88, 0x88, 0x16, 0, 0, 0x48, 0x8b, 0x56, 0x08, 0xc3});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->handle, abi::PT_RDI);
  EXPECT_EQ(found->stack, abi::PT_RSI);
}

TEST(BoxedArgumentsTest, FindsThePlainFormThroughCopies) {
  // mov rbx, rsi; mov rbp, rdx; mov rax, [rbx]; mov rcx, [rax+0x1688]; mov rdx, [rbp+8]; ret
  const auto found = Arguments({0x48, 0x89, 0xf3, 0x48, 0x89, 0xd5, 0x48, 0x8b, 0x03, 0x48, 0x8b,
                                0x88, 0x88, 0x16, 0,    0,    0x48, 0x8b, 0x55, 0x08, 0xc3});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->handle, abi::PT_RSI);
  EXPECT_EQ(found->stack, abi::PT_RDX);
}

TEST(BoxedArgumentsTest, RefusesAnOperatorThatIsPassedByValue) {
  // mov rcx, [rdi+0x1688]; mov rdx, [rsi+8]; ret
  EXPECT_FALSE(Arguments({0x48, 0x8b, 0x8f, 0x88, 0x16, 0, 0, 0x48, 0x8b, 0x56, 0x08, 0xc3}));
}

TEST(BoxedArgumentsTest, FollowsArgumentsThroughTheFrame) {
  // mov [rsp-8], rdi; mov [rsp-16], rsi; xor edi, edi; mov rbx, [rsp-8]; mov rax, [rbx]; mov rcx,
  // [rax+0x1688]; mov rbp, [rsp-16]; mov rdx, [rbp+8]; ret
  const auto found =
      Arguments({0x48, 0x89, 0x7c, 0x24, 0xf8, 0x48, 0x89, 0x74, 0x24, 0xf0, 0x31, 0xff, 0x48,
                 0x8b, 0x5c, 0x24, 0xf8, 0x48, 0x8b, 0x03, 0x48, 0x8b, 0x88, 0x88, 0x16, 0,
                 0,    0x48, 0x8b, 0x6c, 0x24, 0xf0, 0x48, 0x8b, 0x55, 0x08, 0xc3});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->handle, abi::PT_RDI);
  EXPECT_EQ(found->stack, abi::PT_RSI);
}

TEST(BoxedArgumentsTest, FollowsAnArgumentInTheFramePointersRegister) {
  // mov rbp, rdi; mov rax, [rbp+0]; mov rcx, [rax+0x1688]; mov rdx, [rsi+8]; ret
  const auto found = Arguments({0x48, 0x89, 0xfd, 0x48, 0x8b, 0x45, 0x00, 0x48, 0x8b, 0x88, 0x88,
                                0x16, 0, 0, 0x48, 0x8b, 0x56, 0x08, 0xc3});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->handle, abi::PT_RDI);
  EXPECT_EQ(found->stack, abi::PT_RSI);
}

TEST(BoxedArgumentsTest, AnOverwrittenRegisterIsNoArgument) {
  // xor edi, edi; mov rax, [rdi]; mov rcx, [rax+0x1688]; mov rdx, [rsi+8]; ret
  EXPECT_FALSE(Arguments({0x31, 0xff, 0x48, 0x8b, 0x07, 0x48, 0x8b, 0x88, 0x88, 0x16, 0, 0, 0x48,
                          0x8b, 0x56, 0x08, 0xc3}));
}

CallerKind Kind(std::vector<uint8_t> before_call, std::vector<uint8_t> after_call) {
  std::vector<uint8_t> code = std::move(before_call);
  const int32_t distance = static_cast<int32_t>(kCallbacks - (kBase + code.size() + 5));
  code.push_back(0xe8);
  const uint8_t* bytes = reinterpret_cast<const uint8_t*>(&distance);
  code.insert(code.end(), bytes, bytes + 4);
  code.insert(code.end(), after_call.begin(), after_call.end());
  FakeCode image;
  const uint64_t end = kBase + code.size();
  image.Add(kBase, code);
  image.AddStub(kCallbacks, "getStepCallbacksUnlessEmpty");
  const auto graph = FlowGraph::Build(image, kBase, end);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return ClassifyCaller(image, *graph, {kCallbacks});
}

TEST(ClassifyCallerTest, TellsTheMakersOfRowsApartByScopeAndUse) {
  // mov rbx, rdi; mov rbp, rsi; mov rax, [rbx]; mov rcx, [rax+0x1688]; mov rdx, [rbp+8]
  const std::vector<uint8_t> boxed = {0x48, 0x89, 0xfb, 0x48, 0x89, 0xf5, 0x48, 0x8b, 0x03, 0x48,
                                      0x8b, 0x88, 0x88, 0x16, 0,    0,    0x48, 0x8b, 0x55, 0x08};
  std::vector<uint8_t> function_scope = boxed;
  function_scope.insert(function_scope.end(), {0x31, 0xf6});  // xor esi, esi
  EXPECT_EQ(Kind(function_scope, {0xc3}), CallerKind::kBoxed);
  std::vector<uint8_t> script_scope = boxed;
  script_scope.insert(script_scope.end(), {0xbe, 2, 0, 0, 0});  // mov esi, 2
  EXPECT_EQ(Kind(script_scope, {0xc3}), CallerKind::kUnknown);
  // mov rbx, rsi; mov esi, 1; call; mov rax, [rbx]; call [rax+0x60]; ret
  EXPECT_EQ(Kind({0x48, 0x89, 0xf3, 0xbe, 1, 0, 0, 0}, {0x48, 0x8b, 0x03, 0xff, 0x50, 0x60, 0xc3}),
            CallerKind::kNode);
}

}  // namespace
}  // namespace proftrace
