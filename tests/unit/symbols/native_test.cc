// Native stacks: this process's own, unwound from a copy, and what C++ names look like.
#include "symbols/elf/native_unwinder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "symbols/python/sampled_frames.h"
#include "userspace/base/demangle.h"

namespace proftrace {
namespace {

TEST(WithoutParametersTest, LeavesTheName) {
  EXPECT_EQ(WithoutParameters("at::mm(at::Tensor const&, at::Tensor const&)"), "at::mm");
  EXPECT_EQ(WithoutParameters("foo::bar() const"), "foo::bar");
  EXPECT_EQ(WithoutParameters("f(void (*)(int)) [clone .cold]"), "f");
  EXPECT_EQ(WithoutParameters("a::operator()(int) const"), "a::operator()");
  EXPECT_EQ(WithoutParameters("a::operator()"), "a::operator()");
  EXPECT_EQ(WithoutParameters("at::(anonymous namespace)::f(int)"), "at::(anonymous namespace)::f");
  EXPECT_EQ(WithoutParameters("at::(anonymous namespace)"), "at::(anonymous namespace)");
  EXPECT_EQ(WithoutParameters("f(int)::{lambda(int)#1}::operator()(int) const"),
            "f(int)::{lambda(int)#1}::operator()");
  for (const char* name : {"plain", "", "()", ")(", "a)"}) EXPECT_EQ(WithoutParameters(name), name);
}

// f(P<int, int>, P<P<int, int>, P<int, int>>, …): each parameter has the one before it twice.
std::string DoublingName(int parameters) {
  const auto reference = [](int i) {
    constexpr std::string_view kDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    std::string digits;
    for (int left = i; left > 0; left = (left - 1) / 36) {
      digits.insert(digits.begin(), kDigits[static_cast<size_t>((left - 1) % 36)]);
    }
    return "S" + digits + "_";
  };
  std::string name = "_Z1f1PIiiE";
  for (int i = 1; i < parameters; ++i) name += "S_I" + reference(i) + reference(i) + "E";
  return name;
}

TEST(DemangleTest, LongNamesAreWrittenOutUpToALimit) {
  EXPECT_EQ(Demangle("_Z1fi"), "f(int)");
  EXPECT_EQ(Demangle("1A"), "A");
  EXPECT_EQ(Demangle("no name"), std::nullopt);
  EXPECT_EQ(Demangle(DoublingName(2)), "f(P<int, int>, P<P<int, int>, P<int, int> >)");
  // 140 megabytes, and what takes longer than anybody waits.
  for (const int parameters : {22, 60}) {
    EXPECT_EQ(Demangle(DoublingName(parameters)), std::nullopt);
  }
  EXPECT_EQ(Demangle("_Z1f" + std::string(size_t{1} << 20, 'P') + "i"), std::nullopt);
}

struct Moment {
  abi::pt_user_registers registers{};
  std::vector<uint8_t> stack;
};

// What a sample would have of the caller's thread.
[[gnu::noinline]] void TakeMoment(Moment* moment) {
  abi::pt_user_registers& registers = moment->registers;
  asm volatile(
      "lea 0(%%rip), %%rax\n\t"
      "mov %%rax, %0\n\t"
      "mov %%rsp, %1\n\t"
      "mov %%rbp, %2\n\t"
      "mov %%rbx, %3\n\t"
      "mov %%r12, %4\n\t"
      "mov %%r13, %5\n\t"
      "mov %%r14, %6\n\t"
      "mov %%r15, %7"
      : "=m"(registers.ip), "=m"(registers.sp), "=m"(registers.bp), "=m"(registers.bx),
        "=m"(registers.r12), "=m"(registers.r13), "=m"(registers.r14), "=m"(registers.r15)
      :
      : "rax");
  registers.call = -1;
  moment->stack.resize(8192);
  const ProcessMemory memory(Pid{static_cast<uint32_t>(getpid())});
  size_t bytes = moment->stack.size();
  while (bytes > 0 && !memory.Read(registers.sp, moment->stack.data(), bytes)) bytes -= 256;
  moment->stack.resize(bytes);
}

}  // namespace

int OuterOfTheTest(int depth, Moment* moment);
// Else the compiler makes a loop of it.
int (*volatile g_outer)(int, Moment*) = OuterOfTheTest;

int OuterOfTheTest(int depth, Moment* moment) {
  if (depth == 0) {
    TakeMoment(moment);
    return 1;
  }
  return g_outer(depth - 1, moment) + depth;
}

namespace {

TEST(NativeSymbolsTest, AFileIsWhereItIsLoadedAlsoIfItIsMappedBelowAsData) {
  const Pid self{static_cast<uint32_t>(getpid())};
  const auto maps = ReadMaps(self);
  ASSERT_TRUE(maps.ok());
  MappedFile program = GroupByFile(*maps).front();
  NativeSymbols symbols;
  const MemoryRange plain = symbols.LoadedRange(self, program);
  EXPECT_EQ(plain.address, program.mappings.front().start);
  EXPECT_EQ(plain.address + plain.bytes, program.mappings.back().end);
  Mapping data = program.mappings.front();
  data.start = 0x10000;
  data.end = 0x20000;
  program.mappings.insert(program.mappings.begin(), data);
  const MemoryRange loaded = symbols.LoadedRange(self, program);
  EXPECT_EQ(loaded.address, plain.address);
  EXPECT_EQ(loaded.bytes, plain.bytes);
}

TEST(NativeUnwinderTest, FindsTheCallersOfThisProcess) {
  NativeSymbols symbols;
  const auto unwinder = NativeUnwinder::Create(Pid{static_cast<uint32_t>(getpid())}, &symbols);
  ASSERT_TRUE(unwinder.ok()) << unwinder.status();
  Moment moment;
  EXPECT_EQ(g_outer(3, &moment), 7);
  bool is_whole = false;
  int outer = 0;
  std::string all;
  for (const uint64_t address : (*unwinder)->Unwind(moment.registers, moment.stack, &is_whole)) {
    const NativeFunction function = (*unwinder)->FunctionAt(address);
    all += function.name + ";";
    if (function.name.find("OuterOfTheTest") != std::string::npos) ++outer;
    EXPECT_NE(function.file, "");
  }
  EXPECT_EQ(outer, 4) << all;
  EXPECT_NE(all.find("TakeMoment"), std::string::npos) << all;
}

TEST(NativeUnwinderTest, AStackThatIsCutGivesWhatThereIs) {
  NativeSymbols symbols;
  const auto unwinder = NativeUnwinder::Create(Pid{static_cast<uint32_t>(getpid())}, &symbols);
  ASSERT_TRUE(unwinder.ok()) << unwinder.status();
  Moment moment;
  g_outer(3, &moment);
  bool is_whole = true;
  moment.stack.resize(std::min<size_t>(moment.stack.size(), 128));
  const auto cut = (*unwinder)->Unwind(moment.registers, moment.stack, &is_whole);
  EXPECT_FALSE(is_whole);
  EXPECT_GE(cut.size(), 1u);
  EXPECT_EQ((*unwinder)->Unwind(moment.registers, {}, &is_whole).size(), 1u);
  // Nothing there is as it should be.
  moment.registers.ip = 0x10;
  moment.registers.sp = ~uint64_t{0} - 8;
  moment.registers.bp = ~uint64_t{0} - 3;
  (void)(*unwinder)->Unwind(moment.registers, moment.stack, &is_whole);
  EXPECT_FALSE(is_whole);
}

TEST(NativeUnwinderTest, NoProcess) {
  NativeSymbols symbols;
  EXPECT_FALSE(NativeUnwinder::Create(Pid{4'000'000}, &symbols).ok());
}

// Frames of one call of the interpreter, as the versions of CPython mark them.
TEST(SampledFramesTest, CallsOfTheInterpreter) {
  const auto count = [](uint32_t version, std::vector<abi::pt_sampled_frame> frames) {
    return FramesOfOneCall(*KnownPythonLayout(version), frames.data(), frames.size());
  };
  const abi::pt_sampled_frame plain{0x1000, 0x1100, 1, 1};
  abi::pt_sampled_frame entry = plain;
  entry.instruction |= PT_SAMPLE_FRAME_IS_ENTRY;
  const abi::pt_sampled_frame shim{};
  EXPECT_EQ(count(kPython39, {plain, plain}), 1u);
  EXPECT_EQ(count(kPython310, {plain, plain}), 1u);
  EXPECT_EQ(count(kPython311, {plain, plain, entry, plain, entry}), 3u);
  EXPECT_EQ(count(kPython311, {plain, plain}), 2u);  // cut
  EXPECT_EQ(count(kPython312, {plain, plain, shim, plain, shim}), 3u);
  EXPECT_EQ(count(kPython312, {}), 0u);
}

TEST(SampledFramesTest, NumbersOfInstructions) {
  const PythonLayout layout = *KnownPythonLayout(kPython311);
  const uint64_t code = 0x7f0000001000;
  const uint64_t begin = code + layout.stack.code_instructions;
  EXPECT_EQ(InstructionOf(layout, {code, begin + 20, 0, 0}), 10u);
  EXPECT_EQ(InstructionOf(layout, {code, (begin + 20) | PT_SAMPLE_FRAME_IS_ENTRY, 0, 0}), 10u);
  EXPECT_EQ(InstructionOf(layout, {code, begin - 2, 0, 0}), UINT32_MAX);  // has not begun
  EXPECT_EQ(InstructionOf(layout, {code, 0x10, 0, 0}), UINT32_MAX);
  EXPECT_EQ(InstructionOf(*KnownPythonLayout(kPython39), {code, 20, 0, 0}), 10u);
  EXPECT_EQ(InstructionOf(*KnownPythonLayout(kPython310), {code, 20, 0, 0}), 20u);
}

}  // namespace
}  // namespace proftrace
