// Where the unwinder enters a frame: from made-up code, and the unwinder's of this process.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unwind.h>

#include <cstring>
#include <optional>
#include <vector>

#include "bpf/abi/records.h"
#include "symbols/elf_file.h"
#include "symbols/instruction.h"
#include "symbols/module_analysis.h"
#include "symbols/unwinder_entry.h"
#include "tests/unit/symbols_fake_code.h"

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
  EXPECT_TRUE(MayContribute(**file, /*full=*/false));
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
