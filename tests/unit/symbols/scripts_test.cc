// Names of places in TorchScript's graphs, from made-up memory and made-up code.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "symbols/torch/script_facts.h"
#include "symbols/torch/script_names.h"
#include "tests/unit/symbols/fake_code.h"
#include "tests/unit/symbols/fake_memory.h"

namespace proftrace {
namespace {

constexpr ScriptKinds kKinds{.class_type = 0x10,
                             .function_type = 0x20,
                             .graph_function = 0x30,
                             .inlined_stack = 0x40,
                             .call_method = 5,
                             .call_function = 6,
                             .get_attribute = 7,
                             .name = 8};

struct Version {
  const char* torch = "";
  bool has_old_strings = false;
  ScriptObjects found;
};

constexpr Version kOldest{"1.13.1", false, {32, 40, 152, 304}};
constexpr Version kOldStrings{"2.0.1+cu117", true, {32, 40, 128, 328}};
constexpr Version kLastOldStrings{"2.6.0+cu124", true, {16, 32, 112, 360}};
constexpr Version kNew{"2.11.0+cu130", false, {16, 32, 144, 360}};

std::optional<ScriptLayout> LayoutOf(const Version& version) {
  return ScriptLayoutOf(version.torch, version.has_old_strings, version.found);
}

class ScriptNamesTest : public ::testing::TestWithParam<Version> {
 protected:
  ScriptNamesTest() {
    PutString(code_ + layout_.code_name, "forward");
    memory_.PutWord(code_ + layout_.code_graph, graph_);
    const uint64_t block = memory_.Allocate(64);
    const uint64_t input = Node(0);
    self_ = Value(input, Class("__torch__.Net"));
    memory_.PutWord(graph_ + layout_.graph_block, block);
    memory_.PutWord(block + 24, input);
    PutVector(input + 40, {self_});
  }
  void PutString(uint64_t address, const std::string& text) {
    if (GetParam().has_old_strings) {
      memory_.PutOldString(address, text);
    } else {
      memory_.PutString(address, text);
    }
  }
  void PutByte(uint64_t address, uint8_t byte) { memory_.Put(address, &byte, 1); }
  void PutVector(uint64_t address, const std::vector<uint64_t>& words) {
    const uint64_t at = memory_.Allocate(8 * words.size() + 8);
    for (size_t i = 0; i < words.size(); ++i) memory_.PutWord(at + 8 * i, words[i]);
    memory_.PutWord(address, at);
    memory_.PutWord(address + 8, at + 8 * words.size());
  }
  uint64_t Node(uint32_t kind) {
    const uint64_t node = memory_.Allocate(512);
    memory_.Put(node + 8, &kind, sizeof(kind));
    memory_.PutWord(node + 88, graph_);
    return node;
  }
  uint64_t Value(uint64_t node, uint64_t type) {
    const uint64_t value = memory_.Allocate(128);
    memory_.PutWord(value + 8, node);
    memory_.PutWord(value + 56 + layout_.string_bytes, type);
    return value;
  }
  uint64_t Class(const std::string& name) {
    const uint64_t type = memory_.Allocate(256);
    memory_.PutWord(type, kKinds.class_type);
    PutByte(type + layout_.class_has_name, 1);
    PutString(type + layout_.class_name, name);
    return type;
  }
  uint64_t Function(const std::string& name) {
    const uint64_t function = memory_.Allocate(256);
    memory_.PutWord(function, kKinds.graph_function);
    PutString(function + 32 + 2 * layout_.string_bytes, name);
    return function;
  }
  // A function that was inlined, of an instance if `type` is not 0.
  uint64_t Inlined(const std::string& function, uint64_t type, const std::string& instance) {
    const uint64_t stack = memory_.Allocate(256);
    memory_.PutWord(stack, kKinds.inlined_stack);
    memory_.PutWord(stack + layout_.stack_function, Function(function));
    if (type == 0) return stack;
    PutByte(stack + layout_.stack_has_module, 1);
    memory_.PutWord(stack + layout_.stack_module, type);
    PutString(stack + layout_.stack_module + 16, instance);
    return stack;
  }
  void PutInlined(uint64_t node, uint64_t stack) {
    PutByte(node + layout_.node_is_inlined, 1);
    memory_.PutWord(node + layout_.node_callstack, stack);
  }
  void PutCallee(uint64_t stack, uint64_t callee) {
    PutByte(stack + layout_.stack_has_callee, 1);
    memory_.PutWord(stack + layout_.stack_callee, callee);
  }
  std::optional<ScriptNames> Read(uint64_t node) {
    return ReadScriptNames(memory_, layout_, kKinds, code_, node);
  }
  std::string Text(uint64_t node) {
    const auto names = Read(node);
    return names ? names->text : "none";
  }
  std::string Prefix(uint64_t node) {
    const auto names = Read(node);
    return names ? names->prefix : "none";
  }

  FakeMemory memory_;
  ScriptLayout layout_ = LayoutOf(GetParam()).value_or(ScriptLayout{});
  uint64_t code_ = memory_.Allocate(1024);
  uint64_t graph_ = memory_.Allocate(512);
  uint64_t self_ = 0;
};

TEST_P(ScriptNamesTest, AFrameIsTheMethodOfAClass) {
  EXPECT_EQ(Text(Node(1)), "(Net)::forward.");
  EXPECT_EQ(Prefix(Node(1)), "");
}

TEST_P(ScriptNamesTest, InlinedFunctionsFollowTheOutermostFirst) {
  const uint64_t node = Node(1);
  const uint64_t outer = Inlined("forward", Class("__torch__.nn.___torch_mangle_3.Linear"), "fc");
  PutInlined(node, outer);
  PutCallee(outer, Inlined("relu", 0, ""));
  EXPECT_EQ(Text(node), "(Net)::forward.fc(Linear)::forward.::relu.");
}

TEST_P(ScriptNamesTest, WhatIsNotKnownOfAnInstanceTorchCallsSo) {
  const uint64_t node = Node(1);
  PutInlined(node, Inlined("forward", Class(""), ""));
  EXPECT_EQ(Text(node), "(Net)::forward.UNKNOWN_INSTANCE(UNKNOWN_TYPE)::forward.");
}

TEST_P(ScriptNamesTest, ACallSaysWhoseMethodTheNextFrameRuns) {
  const uint64_t getter = Node(kKinds.get_attribute);
  const uint64_t attribute = memory_.Allocate(64);
  memory_.Put(attribute + 8, &kKinds.name, sizeof(kKinds.name));
  PutString(attribute + 16, "inner");
  PutVector(getter + layout_.node_attributes, {attribute});
  const uint64_t call = Node(kKinds.call_method);
  PutVector(call + 16, {Value(getter, 0)});
  EXPECT_EQ(Prefix(call), "inner");
  const uint64_t own = Node(kKinds.call_method);
  PutVector(own + 16, {self_});
  EXPECT_EQ(Prefix(own), "SELF");
  const uint64_t other = Node(kKinds.call_method);
  PutVector(other + 16, {Value(Node(1), 0)});
  EXPECT_EQ(Prefix(other), "INSTANCE_NAME_UNKNOWN");
}

TEST_P(ScriptNamesTest, ACallOfAFunctionSaysItsName) {
  const uint64_t constant = Node(1);
  const uint64_t type = memory_.Allocate(256);
  memory_.PutWord(type, kKinds.function_type);
  memory_.PutWord(type + 64 + 3 * layout_.string_bytes, Function("fallback_function"));
  PutVector(constant + 40, {Value(constant, type)});
  const uint64_t call = Node(kKinds.call_function);
  PutVector(call + 16, {Value(constant, type)});
  EXPECT_EQ(Prefix(call), "CALL_FUNCTION::fallback_function");
}

TEST_P(ScriptNamesTest, WhatIsNoSuchObjectHasNoName) {
  EXPECT_EQ(Text(0x7), "none");
  const uint64_t elsewhere = Node(1);
  memory_.PutWord(elsewhere + 88, graph_ + 8);  // of another graph
  EXPECT_EQ(Text(elsewhere), "none");
  // A function that has been freed: torch itself would follow its vtable.
  const uint64_t node = Node(1);
  const uint64_t stack = Inlined("forward", 0, "");
  memory_.PutWord(stack + layout_.stack_function, memory_.Allocate(256));
  PutInlined(node, stack);
  EXPECT_EQ(Text(node), "none");
}

TEST_P(ScriptNamesTest, AListWithoutAnEndIsGivenUp) {
  const uint64_t node = Node(1);
  const uint64_t stack = Inlined("forward", 0, "");
  PutInlined(node, stack);
  PutCallee(stack, stack);
  EXPECT_EQ(Text(node), "none");
}

TEST_P(ScriptNamesTest, ANameWithoutAnEndIsGivenUp) {
  const uint64_t node = Node(1);
  const bool is_old = GetParam().has_old_strings;
  const uint64_t text = memory_.ReadWord(code_ + layout_.code_name).value_or(0);
  memory_.PutWord(is_old ? text - 24 : code_ + layout_.code_name + 8, uint64_t{1} << 40);
  EXPECT_EQ(Text(node), "none");
}

INSTANTIATE_TEST_SUITE_P(Versions, ScriptNamesTest,
                         ::testing::Values(kOldest, kOldStrings, kLastOldStrings, kNew));

// In the order of ScriptLayout's members.
std::vector<int> OffsetsIn(const ScriptLayout& layout) {
  return {layout.code_name,      layout.code_graph,       layout.graph_block,
          layout.node_callstack, layout.node_is_inlined,  layout.node_attributes,
          layout.stack_callee,   layout.stack_has_callee, layout.stack_function,
          layout.stack_module,   layout.stack_has_module, layout.class_name,
          layout.class_has_name, layout.string_bytes};
}

std::vector<int> OffsetsOf(const Version& version) {
  const auto layout = LayoutOf(version);
  return layout ? OffsetsIn(*layout) : std::vector<int>();
}

TEST(ScriptLayoutTest, WhatFollowsFromTheLibraryIsWhatItsHeadersSay) {
  // scripts/measure-script-layout.py; the first two of 2.0 and 2.6, whose wheels have no header for
  // them, are in accord with torch's own Module Hierarchy (tests/oracle/modules_test.py).
  EXPECT_EQ(OffsetsOf(kOldest),
            (std::vector<int>{328, 360, 296, 192, 184, 288, 32, 24, 40, 152, 144, 64, 32, 32}));
  EXPECT_EQ(OffsetsOf(kOldStrings),
            (std::vector<int>{352, 360, 312, 192, 184, 264, 32, 24, 40, 128, 120, 64, 32, 8}));
  EXPECT_EQ(OffsetsOf(kLastOldStrings),
            (std::vector<int>{384, 392, 312, 184, 192, 264, 16, 24, 32, 112, 136, 56, 80, 8}));
  EXPECT_EQ(OffsetsOf(kNew),
            (std::vector<int>{384, 416, 312, 192, 200, 296, 16, 24, 32, 144, 192, 56, 152, 32}));
}

TEST(ScriptLayoutTest, AVersionThatNobodyMeasuredIsNotKnown) {
  for (const char* version : {"", "1.12.0", "1.14.0", "2", "2.x", "2.16.0", "3.0"}) {
    EXPECT_FALSE(ScriptLayoutOf(version, false, kNew.found)) << version;
  }
}

TEST(ScriptLayoutTest, ALibraryThatContradictsItselfIsNotKnown) {
  for (const ScriptObjects& found : {
           ScriptObjects{40, 32, 144, 360},   // the callee behind the function
           ScriptObjects{16, 48, 144, 360},   // too much before the callee
           ScriptObjects{16, 32, 88, 360},    // no room for the place in the source
           ScriptObjects{16, 32, 4000, 360},  // too much room
           ScriptObjects{},
       }) {
    EXPECT_FALSE(ScriptLayoutOf("2.11.0", false, found)) << found.stack_function;
  }
}

constexpr uint64_t kBase = 0x1000;
constexpr uint64_t kTlsGetAddr = 0x9100;
constexpr uint64_t kHierarchy = 0x9200;

class ScriptCodeTest : public ::testing::Test {
 protected:
  ScriptCodeTest() {
    image_.AddStub(kTlsGetAddr, "__tls_get_addr");
    image_.AddStub(kHierarchy, "moduleHierarchy");
  }
  void Add(const std::vector<uint8_t>& bytes) {
    code_.insert(code_.end(), bytes.begin(), bytes.end());
  }
  void Distance(uint64_t target) {
    const auto distance = static_cast<int32_t>(target - (kBase + code_.size() + 4));
    const auto* at = reinterpret_cast<const uint8_t*>(&distance);
    code_.insert(code_.end(), at, at + 4);
  }
  FlowGraph Graph() {
    image_.Add(kBase, code_);
    auto graph = FlowGraph::Build(image_, kBase, kBase + code_.size());
    EXPECT_TRUE(graph.ok()) << graph.status();
    return *std::move(graph);
  }

  FakeCode image_;
  std::vector<uint8_t> code_;
};

TEST_F(ScriptCodeTest, TheStateIsWhatTheHierarchyIsAskedOf) {
  Add({0x53, 0x48, 0x89, 0xfb, 0x48, 0x8d, 0x3d});  // push rbx; mov rbx, rdi; lea rdi, [index]
  Distance(0x7000);
  Add({0xe8});
  Distance(kTlsGetAddr);
  // mov rsi, [rax+0x2608]; test rsi, rsi; je over; mov rdi, rbx; call
  Add({0x48, 0x8b, 0xb0, 0x08, 0x26, 0, 0, 0x48, 0x85, 0xf6, 0x74, 0x08, 0x48, 0x89, 0xdf, 0xe8});
  Distance(kHierarchy);
  Add({0x48, 0x89, 0xd8, 0x5b, 0xc3});  // mov rax, rbx; pop rbx; ret
  const auto state = ReadCurrentModules(Graph());
  ASSERT_TRUE(state);
  EXPECT_EQ(state->variable.index, 0x7000u);
  EXPECT_EQ(state->variable.offset, 0x2608);
  EXPECT_EQ(state->hierarchy_entry, kHierarchy);
}

TEST_F(ScriptCodeTest, AFunctionWithoutAVariableHasNoState) {
  Add({0x48, 0x31, 0xf6, 0xe8});  // xor rsi, rsi; call
  Distance(kHierarchy);
  Add({0xc3});
  EXPECT_FALSE(ReadCurrentModules(Graph()));
}

TEST_F(ScriptCodeTest, FramesAreTheOnlyVectorOfTheState) {
  // mov rdx, [rsi+0xd0]; mov rax, [rsi+0xd8]; sub rax, rdx; sar rax, 3; movabs rcx, 1/13; imul
  Add({0x48, 0x8b, 0x96, 0xd0, 0, 0, 0, 0x48, 0x8b, 0x86, 0xd8, 0, 0, 0, 0x48, 0x29, 0xd0});
  Add({0x48, 0xc1, 0xf8, 0x03, 0x48, 0xb9, 0xc5, 0x4e, 0xec, 0xc4, 0x4e, 0xec, 0xc4, 0x4e});
  Add({0x48, 0x0f, 0xaf, 0xc1, 0xc3});
  const auto frames = ReadScriptFrames(Graph());
  ASSERT_TRUE(frames);
  EXPECT_EQ(frames->offset, 0xd0);
  EXPECT_EQ(frames->bytes, 104);
}

TEST_F(ScriptCodeTest, AStateOfWhichMoreIsReadIsNotClear) {
  Add({0x48, 0x8b, 0x96, 0xd0, 0, 0, 0, 0x48, 0x8b, 0x86, 0xe8, 0, 0, 0, 0xc3});
  EXPECT_FALSE(ReadScriptFrames(Graph()));
}

TEST_F(ScriptCodeTest, NodesLieInTheCodeThatACodePointsTo) {
  Add({0x48, 0x8b, 0x07, 0x48, 0x83, 0xc0, 0x40, 0xc3});  // mov rax, [rdi]; add rax, 0x40; ret
  EXPECT_EQ(ReadCodeNodes(Graph()), 0x40);
}

TEST_F(ScriptCodeTest, AnotherValueIsNoPlaceOfNodes) {
  Add({0x48, 0x8d, 0x47, 0x40, 0xc3});  // lea rax, [rdi+0x40]; ret
  EXPECT_FALSE(ReadCodeNodes(Graph()));
}

TEST_F(ScriptCodeTest, AnAccessorReturnsAWordOfItsObject) {
  Add({0x48, 0x8b, 0x47, 0x28, 0xc3});  // mov rax, [rdi+0x28]; ret
  EXPECT_EQ(ReadReturnedWord(Graph(), false), 0x28);
  EXPECT_FALSE(ReadReturnedWord(Graph(), true));
}

TEST_F(ScriptCodeTest, AnAccessorReturnsAWordBehindAPointer) {
  // mov rax, [rdi]; mov rax, [rax+0x130]; ret
  Add({0x48, 0x8b, 0x07, 0x48, 0x8b, 0x80, 0x30, 0x01, 0, 0, 0xc3});
  EXPECT_EQ(ReadReturnedWord(Graph(), true), 0x130);
  EXPECT_FALSE(ReadReturnedWord(Graph(), false));
}

TEST_F(ScriptCodeTest, AnAccessorThatReturnsAnotherValueIsNotClear) {
  Add({0x48, 0x8d, 0x47, 0x28, 0xc3});  // lea rax, [rdi+0x28]; ret
  EXPECT_FALSE(ReadReturnedWord(Graph(), false));
}

TEST_F(ScriptCodeTest, AMemberIsCopiedFromItsFirstWordOn) {
  // mov rdx, [rsi+0xa0]; movdqu xmm0, [rsi+0x98]; mov rax, rdi; movups [rdi+8], xmm0; ret
  Add({0x48, 0x8b, 0x96, 0xa0, 0, 0, 0, 0xf3, 0x0f, 0x6f, 0x86, 0x98, 0, 0, 0});
  Add({0x48, 0x89, 0xf8, 0x0f, 0x11, 0x47, 0x08, 0xc3});
  EXPECT_EQ(ReadCopiedWord(Graph()), 0x98);
}

TEST_F(ScriptCodeTest, AFlagIsNoWordThatIsCopied) {
  // movzx edx, byte [rsi+0x18]; mov rax, rdi; mov [rdi], dl; ret
  Add({0x0f, 0xb6, 0x56, 0x18, 0x48, 0x89, 0xf8, 0x88, 0x17, 0xc3});
  EXPECT_FALSE(ReadCopiedWord(Graph()));
}

}  // namespace
}  // namespace proftrace
