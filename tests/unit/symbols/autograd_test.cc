// What sequence numbers come from, read from made-up code of the kinds that compilers make.
#include <gtest/gtest.h>

#include <vector>

#include "bpf/abi/records.h"
#include "symbols/torch/autograd_facts.h"
#include "symbols/x86/key_set.h"
#include "tests/unit/symbols/fake_code.h"

namespace proftrace {
namespace {

using Bytes = std::vector<uint8_t>;
constexpr uint64_t kBase = 0x1000;
constexpr uint64_t kCallbacks = 0x9000;
constexpr uint64_t kTlsGetAddr = 0x9100;
constexpr uint64_t kOther = 0x9200;

class AutogradCodeTest : public ::testing::Test {
 protected:
  AutogradCodeTest() {
    image_.AddStub(kCallbacks, "callbacks");
    image_.AddStub(kTlsGetAddr, "__tls_get_addr");
    image_.AddStub(kOther, "other");
  }
  // A distance of 4 bytes to `target`, behind what is there.
  void Distance(uint64_t target) {
    const auto distance = static_cast<int32_t>(target - (kBase + code_.size() + 4));
    const auto* at = reinterpret_cast<const uint8_t*>(&distance);
    code_.insert(code_.end(), at, at + 4);
  }
  void Add(const Bytes& bytes) { code_.insert(code_.end(), bytes.begin(), bytes.end()); }
  void Call(uint64_t target) {
    code_.push_back(0xe8);
    Distance(target);
  }
  // lea rdi, [index]; call __tls_get_addr
  void ThreadLocal(uint64_t index) {
    Add({0x48, 0x8d, 0x3d});
    Distance(index);
    Call(kTlsGetAddr);
  }
  FlowGraph Graph() {
    image_.Add(kBase, code_);
    auto graph = FlowGraph::Build(image_, kBase, kBase + code_.size());
    EXPECT_TRUE(graph.ok()) << graph.status();
    return *std::move(graph);
  }
  AutogradFacts Read(AutogradFunction function) {
    AutogradFacts facts;
    ReadAutogradFunction(function, Graph(), &facts);
    return facts;
  }
  std::optional<KeySetPlace> FindKeys() {
    const FlowGraph graph = Graph();
    const auto call = FindOnlyCall(graph, {kCallbacks});
    EXPECT_TRUE(call);
    return call ? FindKeySet(graph, *call) : std::nullopt;
  }

  FakeCode image_;
  Bytes code_;
};

TEST_F(AutogradCodeTest, AVariableIsWhatTheFunctionReturns) {
  Add({0x48, 0x83, 0xec, 0x08});  // sub rsp, 8
  ThreadLocal(0x7000);
  Add({0x48, 0x8b, 0x80, 0x30, 0x01, 0, 0});  // mov rax, [rax+0x130]
  Add({0x48, 0x83, 0xc4, 0x08, 0xc3});        // add rsp, 8; ret
  const AutogradFacts facts = Read(AutogradFunction::kPeek);
  EXPECT_EQ(facts.sequence.index, 0x7000u);
  EXPECT_EQ(facts.sequence.offset, 0x130);
}

TEST_F(AutogradCodeTest, AVariableThatDependsOnTheWayIsNotClear) {
  Add({0x40, 0x84, 0xf6, 0x74, 0x10});  // test sil, sil; je the second
  ThreadLocal(0x7000);
  Add({0x48, 0x8b, 0x00, 0xc3});  // mov rax, [rax]; ret
  ThreadLocal(0x7008);
  Add({0x48, 0x8b, 0x00, 0xc3});
  EXPECT_FALSE(Read(AutogradFunction::kPeek).sequence.known());
}

TEST_F(AutogradCodeTest, TheStateHasAFlagBesideIt) {
  ThreadLocal(0x7000);
  Add({0x80, 0x38, 0x00, 0x75, 0x03});  // cmp byte [rax], 0; jne over
  Add({0xc6, 0x00, 0x01});              // mov byte [rax], 1
  ThreadLocal(0x7000);
  Add({0x48, 0x83, 0xc0, 0x10, 0xc3});  // add rax, 0x10; ret
  const AutogradFacts facts = Read(AutogradFunction::kState);
  EXPECT_EQ(facts.state.offset, 0x10);
  EXPECT_EQ(facts.state_set.index, 0x7000u);
  EXPECT_EQ(facts.state_set.offset, 0);
}

TEST_F(AutogradCodeTest, GradModeIsBitZeroOfAByte) {
  Call(kOther);
  Add({0x0f, 0xb6, 0x40, 0x18, 0x83, 0xe0, 0x01, 0xc3});  // movzx eax, [rax+0x18]; and eax, 1; ret
  EXPECT_EQ(Read(AutogradFunction::kGradMode).grad_mode_offset, 0x18);
}

TEST_F(AutogradCodeTest, AnotherBitIsNotGradMode) {
  Call(kOther);
  Add({0x0f, 0xb6, 0x40, 0x18, 0x83, 0xe0, 0x02, 0xc3});
  EXPECT_FALSE(Read(AutogradFunction::kGradMode).grad_mode_offset);
}

TEST_F(AutogradCodeTest, KeysAreThreeThatLieSideBySide) {
  // movabs rax, 0x7000000000; test rsi, rax; ret
  Add({0x48, 0xb8, 0, 0, 0, 0, 0x70, 0, 0, 0, 0x48, 0x85, 0xc6, 0xc3});
  const AutogradFacts facts = Read(AutogradFunction::kRuleBySet);
  EXPECT_EQ(facts.lowest_key, 36);
  EXPECT_FALSE(facts.highest_only);
}

TEST_F(AutogradCodeTest, KeysMayBeSaidByWhatTheyLeaveOut) {
  // movabs rdx, 0xffffff8ffc000000; ret
  Add({0x48, 0xba, 0, 0, 0, 0xfc, 0x8f, 0xff, 0xff, 0xff, 0xc3});
  EXPECT_EQ(Read(AutogradFunction::kAlias).lowest_key_of_alias, 36);
}

TEST_F(AutogradCodeTest, TwoCandidatesForKeysAreNone) {
  Add({0x48, 0xb8, 0, 0, 0, 0, 0x70, 0, 0, 0, 0x48, 0xb8, 0, 0, 0, 0, 0xe0, 0, 0, 0, 0xc3});
  EXPECT_EQ(Read(AutogradFunction::kRuleBySet).lowest_key, 0);
}

// push rbx; push rbp; sub rsp, 0x88; call callbacks
const Bytes kEntry = {0x53, 0x55, 0x48, 0x81, 0xec, 0x88, 0, 0, 0};

TEST_F(AutogradCodeTest, TheKeySetFollowsTheFunctor) {
  Add(kEntry);
  Call(kCallbacks);
  Add({0x48, 0x8b, 0x7d, 0x00});  // mov rdi, [rbp]: the functor of the kernel at rbp
  Add({0x48, 0x89, 0xde});        // mov rsi, rbx
  Add({0xff, 0x55, 0x10, 0xc3});  // call [rbp+0x10]; ret
  const auto keys = FindKeys();
  ASSERT_TRUE(keys);
  EXPECT_EQ(keys->reg, 3);
  const FlowGraph graph = Graph();
  EXPECT_EQ(FrameWordsAt(graph, *FindOnlyCall(graph, {kCallbacks})), 2u + 0x88 / 8);
}

TEST_F(AutogradCodeTest, BehindThePlaceOfAResultAndInTheFrame) {
  Add(kEntry);
  Call(kCallbacks);
  Add({0x48, 0x8b, 0x44, 0x24, 0x08});  // mov rax, [rsp+8]: the kernel
  Add({0x48, 0x8b, 0x30});              // mov rsi, [rax]
  Add({0x48, 0x8b, 0x54, 0x24, 0x20});  // mov rdx, [rsp+0x20]
  Add({0xff, 0x50, 0x18, 0xc3});        // call [rax+0x18]; ret
  const auto keys = FindKeys();
  ASSERT_TRUE(keys);
  EXPECT_EQ(keys->reg, 4 | PT_KEY_SET_IN_MEMORY);
  EXPECT_EQ(keys->offset, 0x20);
}

TEST_F(AutogradCodeTest, InABoxedCallTheOperatorIsBetween) {
  Add(kEntry);
  Call(kCallbacks);
  Add({0x48, 0x8b, 0x7d, 0x00, 0x4c, 0x89, 0xe6});  // mov rdi, [rbp]; mov rsi, r12
  Add({0x48, 0x89, 0xda});                          // mov rdx, rbx
  Add({0xff, 0x55, 0x08, 0xc3});                    // call [rbp+8]; ret
  const auto keys = FindKeys();
  ASSERT_TRUE(keys);
  EXPECT_EQ(keys->reg, 3);
}

TEST_F(AutogradCodeTest, ACallOfAnythingElseSaysNothing) {
  Add(kEntry);
  Call(kCallbacks);
  Add({0x48, 0x8b, 0x7b, 0x08, 0x48, 0x89, 0xde});  // mov rdi, [rbx+8]; mov rsi, rbx
  Add({0xff, 0x55, 0x10, 0xc3});
  EXPECT_FALSE(FindKeys());
}

TEST_F(AutogradCodeTest, WhatACallMayChangeIsNoPlace) {
  Add(kEntry);
  Call(kCallbacks);
  Add({0x48, 0x8b, 0x7d, 0x00});  // mov rdi, [rbp]
  Add({0x48, 0x8b, 0x73, 0x40});  // mov rsi, [rbx+0x40]: in an object
  Add({0xff, 0x55, 0x10, 0xc3});
  EXPECT_FALSE(FindKeys());
}

}  // namespace
}  // namespace proftrace
