// Where the unwinder enters a frame: from made-up code, and the unwinder's of this process.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unwind.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "bpf/abi/records.h"
#include "symbols/elf/elf_file.h"
#include "symbols/torch/module_analysis.h"
#include "symbols/torch/unwinder_entry.h"
#include "symbols/x86/instruction.h"
#include "tests/unit/symbols/fake_code.h"

namespace proftrace {
namespace {

using Bytes = std::vector<uint8_t>;
constexpr uint64_t kSetter = 0x1000;
constexpr uint64_t kGetter = 0x2000;
const Bytes kEndbr = {0xf3, 0x0f, 0x1e, 0xfa};
const Bytes kSetIp = {0x48, 0x89, 0xb7, 0x98, 0, 0, 0, 0xc3};   // mov %rsi, 0x98(%rdi); ret
const Bytes kGetCfa = {0x48, 0x8b, 0x87, 0x90, 0, 0, 0, 0xc3};  // mov 0x90(%rdi), %rax; ret

std::optional<RowProbe> Find(const Bytes& setter, const Bytes& getter) {
  FakeCode code;
  code.Add(kSetter, setter);
  code.Add(kGetter, getter);
  return FindUnwinderEntry(code, kSetter, kGetter);
}

Bytes Joined(Bytes first, const Bytes& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

TEST(UnwinderEntryTest, TheStackPointersPlaceIsTheGetters) {
  for (const bool has_endbr : {false, true}) {
    const Bytes begin = has_endbr ? kEndbr : Bytes();
    const auto entry = Find(Joined(begin, kSetIp), Joined(begin, kGetCfa));
    ASSERT_TRUE(entry.has_value());
    EXPECT_EQ(entry->role, abi::PT_ROLE_UNWOUND);
    EXPECT_EQ(entry->handle_register, kRdi);
    EXPECT_EQ(entry->handle_offset, 0x90);
  }
}

TEST(UnwinderEntryTest, WhatIsNotAsInLibgccIsLeft) {
  Bytes apart = kSetIp;
  apart[3] = 0xa0;  // the two are no neighbours
  Bytes negative = kGetCfa;
  negative[6] = 0xff;
  Bytes of_other = kSetIp;
  of_other[2] = 0xb6;                                       // of rsi
  const Bytes work = {0x55, 0x48, 0x89, 0xe5, 0x5d, 0xc3};  // push; mov; pop; ret
  EXPECT_FALSE(Find(apart, kGetCfa).has_value());
  EXPECT_FALSE(Find(kSetIp, negative).has_value());
  EXPECT_FALSE(Find(of_other, kGetCfa).has_value());
  EXPECT_FALSE(Find(work, kGetCfa).has_value());
  EXPECT_FALSE(Find(kSetIp, work).has_value());
  EXPECT_FALSE(Find({}, {}).has_value());
  EXPECT_FALSE(Find(kSetIp, {0x48, 0x8b, 0x87, 0x90, 0, 0, 0}).has_value());
}

// Accessors of one structure, as libgcc has them beside each other.
Bytes Accessors(const Bytes& prologue, const Bytes& epilogue, uint8_t address_at) {
  Bytes code(100, 0x90);
  const auto add = [&](const Bytes& mov, uint8_t displacement) {
    code = Joined(code, prologue);
    code = Joined(code, mov);
    code = Joined(code, {displacement, 0, 0, 0});
    code = Joined(code, epilogue);
    code.resize((code.size() + 15) / 16 * 16, 0xcc);
  };
  add({0x48, 0x8b, 0x87}, static_cast<uint8_t>(address_at - 8));
  add({0x48, 0x8b, 0x87}, address_at);
  add({0x48, 0x89, 0xb7}, address_at);
  add({0x48, 0x8b, 0x87}, static_cast<uint8_t>(address_at + 8));
  return code;
}

const Bytes kFrame = {0x55, 0x48, 0x89, 0xe5};

TEST(UnwinderEntryTest, ACopyWithoutNamesIsFoundByWhatItsAccessorsDo) {
  for (const auto& [prologue, epilogue] :
       std::vector<std::pair<Bytes, Bytes>>{{{}, {0xc3}},
                                            {kEndbr, {0xc3}},
                                            {kFrame, {0x5d, 0xc3}},
                                            {Joined(kEndbr, kFrame), {0x5d, 0xc3}}}) {
    const Bytes code = Accessors(prologue, epilogue, 0x98);
    const auto found = FindUnwindersIn(code, 0x4000);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].probe.role, abi::PT_ROLE_UNWOUND);
    EXPECT_EQ(found[0].probe.handle_offset, 0x90);
    const Bytes begin = Joined(prologue, {0x48, 0x89, 0xb7});
    EXPECT_TRUE(std::equal(begin.begin(), begin.end(),
                           code.begin() + static_cast<ptrdiff_t>(found[0].address - 0x4000)));
  }
}

TEST(UnwinderEntryTest, OtherAccessorsAreNoUnwinder) {
  Bytes without_setter = Accessors({}, {0xc3}, 0x98);
  std::replace(without_setter.begin(), without_setter.end(), uint8_t{0x89}, uint8_t{0x8b});
  EXPECT_TRUE(FindUnwindersIn(without_setter, 0).empty());
  // One of the getters lies too far away.
  Bytes apart = kSetIp;
  apart.resize(4096, 0x90);
  EXPECT_TRUE(FindUnwindersIn(Joined(apart, Accessors({}, {0xc3}, 0xa8)), 0).size() == 1u);
  EXPECT_TRUE(FindUnwindersIn(apart, 0).empty());
  EXPECT_TRUE(FindUnwindersIn(kSetIp, 0).empty());
  EXPECT_TRUE(FindUnwindersIn(Bytes{0x48, 0x89, 0xb7}, 0).empty());
  EXPECT_TRUE(FindUnwindersIn({}, 0).empty());
}

TEST(UnwinderEntryTest, ALibraryThatBringsItsRuntimeAlong) {
  auto file = ElfFile::Open(UniqueFd(open(PROFTRACE_OWN_RUNTIME, O_RDONLY | O_CLOEXEC)));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(MayContribute(**file, /*full=*/false, /*has_collector=*/false));
  const ModuleFacts facts = AnalyzeModule(file->get());
  ASSERT_EQ(facts.row_ends.size(), 1u);
  EXPECT_EQ(facts.row_ends.front().role, abi::PT_ROLE_UNWOUND);
}

struct Seen {
  int16_t offset = 0;
  int frames = 0;
  bool is_right = true;
};

_Unwind_Reason_Code Compare(_Unwind_Context* context, void* data) {
  auto* seen = static_cast<Seen*>(data);
  uint64_t stack_pointer = 0;
  std::memcpy(&stack_pointer, reinterpret_cast<const char*>(context) + seen->offset,
              sizeof(stack_pointer));
  seen->is_right = seen->is_right && stack_pointer == _Unwind_GetCFA(context);
  ++seen->frames;
  return _URC_NO_REASON;
}

TEST(UnwinderEntryTest, TheUnwinderOfThisProcess) {
  Dl_info info{};
  ASSERT_NE(dladdr(reinterpret_cast<const void*>(&_Unwind_SetIP), &info), 0);
  auto file = ElfFile::Open(UniqueFd(open(info.dli_fname, O_RDONLY | O_CLOEXEC)));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(MayContribute(**file, /*full=*/false, /*has_collector=*/false));
  const ModuleFacts facts = AnalyzeModule(file->get());
  ASSERT_EQ(facts.row_ends.size(), 1u);
  const RowProbe& entry = facts.row_ends.front();
  EXPECT_EQ(entry.role, abi::PT_ROLE_UNWOUND);
  const auto* setter = static_cast<const char*>(dlsym(RTLD_DEFAULT, "_Unwind_SetIP"));
  const uint64_t address = static_cast<uint64_t>(setter - static_cast<const char*>(info.dli_fbase));
  EXPECT_EQ(entry.offset, (*file)->FileOffset(address));
  Seen seen;
  seen.offset = entry.handle_offset;
  _Unwind_Backtrace(Compare, &seen);
  EXPECT_GT(seen.frames, 3);
  EXPECT_TRUE(seen.is_right);
}

}  // namespace
}  // namespace proftrace
