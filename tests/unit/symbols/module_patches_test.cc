// Windows of a whole file: who jumps into its functions, the unwinder among them.
#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>
#include <stdexcept>

#include "symbols/elf/landing_pads.h"
#include "symbols/plan/window_cache.h"
#include "symbols/torch/module_analysis.h"
#include "symbols/torch/row_makers.h"
#include "symbols/x86/branch_scan.h"
#include "symbols/x86/call_scan.h"
#include "symbols/x86/patch_windows.h"
#include "userspace/base/turns.h"

namespace proftrace {
namespace {

using ::testing::HasSubstr;

constexpr RegisterSet Bit(unsigned reg) { return RegisterSet{1} << reg; }

// Keeps exceptions and their handlers in this program.
extern "C" __attribute__((noinline)) int PatchWindowsTestCatches(int value) {
  // Not known here, so that the call stays where it is.
  static int (*volatile successor)(int) = [](int number) {
    if (number > 2) throw std::runtime_error("large");
    return number + 1;
  };
  try {
    return successor(value);
  } catch (const std::runtime_error&) {
    return -value;
  }
}

std::unique_ptr<ElfFile> OpenElf(const char* path) {
  auto file = ElfFile::Open(UniqueFd(open(path, O_RDONLY | O_CLOEXEC)));
  return file.ok() ? std::move(*file) : nullptr;
}

uint64_t FindSymbol(ElfFile* file, std::string_view name) {
  uint64_t address = 0;
  file->ForEachSymbol(true, [&](const ElfSymbol& symbol) {
    if (symbol.name() == name) address = symbol.address;
  });
  return address;
}

TEST(LandingPadTest, FindsThoseOfAFunction) {
  ASSERT_EQ(PatchWindowsTestCatches(3), -3);
  const auto file = OpenElf("/proc/self/exe");
  ASSERT_NE(file, nullptr);
  const uint64_t address = FindSymbol(file.get(), "PatchWindowsTestCatches");
  ASSERT_NE(address, 0u);
  const ModuleImage image(file.get());
  const auto range = image.UnwindRangeAt(address);
  ASSERT_TRUE(range);
  const auto pads = ReadLandingPads(*file, *image.UnwindRecordAt(address));
  ASSERT_TRUE(pads.ok()) << pads.status();
  ASSERT_FALSE(pads->empty());
  const auto code = FunctionCode::Read(image, range->start, range->end);
  ASSERT_TRUE(code.ok()) << code.status();
  for (const uint64_t pad : *pads) EXPECT_TRUE(code->IndexAt(pad)) << std::hex << pad;
}

// The library that a function is from.
std::unique_ptr<ElfFile> OpenLibraryOf(const void* function) {
  Dl_info info;
  return dladdr(function, &info) == 0 ? nullptr : OpenElf(info.dli_fname);
}

TEST(LandingPadTest, ReadsAllOfALibrary) {
  const auto file = OpenLibraryOf(reinterpret_cast<void*>(&std::uncaught_exceptions));
  ASSERT_NE(file, nullptr);
  const ModuleImage image(file.get());
  size_t functions = 0;
  size_t with_pads = 0;
  file->ForEachSymbol(false, [&](const ElfSymbol& symbol) {
    const auto range = image.UnwindRangeAt(symbol.address);
    if (!symbol.is_function || !symbol.is_defined || !range) return;
    const auto pads = ReadLandingPads(*file, *image.UnwindRecordAt(symbol.address));
    ASSERT_TRUE(pads.ok()) << symbol.name() << ": " << pads.status();
    ++functions;
    with_pads += pads->empty() ? 0 : 1;
  });
  EXPECT_GT(functions, 1000u);
  EXPECT_GT(with_pads, 100u);
}

TEST(BranchScanTest, FindsWhatANaiveSearchFinds) {
  const auto file = OpenLibraryOf(reinterpret_cast<void*>(&std::uncaught_exceptions));
  ASSERT_NE(file, nullptr);
  const ElfSection* text = file->FindSection(".text");
  ASSERT_NE(text, nullptr);
  const std::vector<uint8_t> bytes = file->ReadSection(*text);
  ASSERT_EQ(bytes.size(), text->size);
  std::vector<AddressRange> places;
  for (uint64_t at = text->address; at + 100 < text->address + text->size; at += 977) {
    places.push_back({at, at + 61});
  }
  std::vector<std::pair<uint64_t, uint64_t>> wanted;
  for (size_t i = 0; i + 5 <= bytes.size(); ++i) {
    const bool is_plain = bytes[i] == 0xe8 || bytes[i] == 0xe9;
    const bool is_conditional = bytes[i] == 0x0f && (bytes[i + 1] & 0xf0) == 0x80;
    if (!is_plain && !is_conditional) continue;
    const size_t distance_at = i + (is_plain ? 1 : 2);
    if (distance_at + 4 > bytes.size()) continue;
    int32_t distance;
    std::memcpy(&distance, bytes.data() + distance_at, 4);
    const uint64_t target = text->address + distance_at + 4 + static_cast<int64_t>(distance);
    const uint64_t from_first = target - text->address;
    if (target >= text->address && target < places.back().last && from_first % 977 < 61) {
      wanted.emplace_back(text->address + i, target);
    }
  }
  std::vector<std::pair<uint64_t, uint64_t>> found;
  const auto branches = FindBranchesInto(*file, places);
  ASSERT_TRUE(branches.has_value());
  for (const Branch& branch : *branches) {
    if (branch.address >= text->address && branch.address < text->address + text->size) {
      found.emplace_back(branch.address, branch.target);
    }
  }
  EXPECT_GT(wanted.size(), 1000u);
  EXPECT_EQ(found, wanted);
}

// This program's file, but its code is said to have so many bytes; they are not on the disk.
std::unique_ptr<ElfFile> WithLargeCode(uint64_t bytes) {
  char path[] = "/tmp/symbols_sparse_XXXXXX";
  UniqueFd copy(mkstemp(path));
  EXPECT_TRUE(copy.valid());
  const std::string name(path);
  std::filesystem::copy_file("/proc/self/exe", name,
                             std::filesystem::copy_options::overwrite_existing);
  const UniqueFd fd(open(path, O_RDWR | O_CLOEXEC));
  unlink(path);
  Elf64_Ehdr header;
  EXPECT_EQ(pread(fd.get(), &header, sizeof(header), 0), static_cast<ssize_t>(sizeof(header)));
  for (uint64_t i = 0; i < header.e_shnum; ++i) {
    const off_t at = static_cast<off_t>(header.e_shoff + i * sizeof(Elf64_Shdr));
    Elf64_Shdr section;
    EXPECT_EQ(pread(fd.get(), &section, sizeof(section), at),
              static_cast<ssize_t>(sizeof(section)));
    if (section.sh_type != SHT_PROGBITS || (section.sh_flags & SHF_EXECINSTR) == 0) continue;
    if (section.sh_size < 4096) continue;
    section.sh_size = bytes;
    EXPECT_EQ(pwrite(fd.get(), &section, sizeof(section), at),
              static_cast<ssize_t>(sizeof(section)));
    EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(section.sh_offset + bytes)), 0);
    break;
  }
  auto file = ElfFile::Open(UniqueFd(dup(fd.get())));
  EXPECT_TRUE(file.ok()) << file.status();
  return file.ok() ? *std::move(file) : nullptr;
}

TEST(CodeScansTest, CodeThatNobodyCanReadIsLeftOut) {
  const auto file = WithLargeCode(uint64_t{1} << 40);
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(FindCalls(*file, {0x1000}, kLongestAnalysisNs).left_out, 1u);
  // Where not all jumps are known, none may be written.
  EXPECT_FALSE(FindBranchesInto(*file, {{0x1000, 0x1040}}).has_value());
}

TEST(CodeScansTest, AScanEndsWithItsTime) {
  const auto file = OpenElf("/proc/self/exe");
  ASSERT_NE(file, nullptr);
  EXPECT_FALSE(FindCalls(*file, {0x1000}, kLongestAnalysisNs).is_cut);
  const FoundCalls cut = FindCalls(*file, {0x1000}, -1);
  EXPECT_TRUE(cut.is_cut);
  EXPECT_TRUE(cut.sites.empty());
}

TEST(CodeScansTest, PlacesMayLieFarApart) {
  const auto file = OpenElf("/proc/self/exe");
  ASSERT_NE(file, nullptr);
  const ElfSection* text = file->FindSection(".text");
  ASSERT_NE(text, nullptr);
  const AddressRange all{text->address, text->address + text->size};
  const auto near = FindBranchesInto(*file, {all});
  const auto far = FindBranchesInto(*file, {all, {uint64_t{1} << 62, (uint64_t{1} << 62) + 64}});
  ASSERT_TRUE(near && far);
  EXPECT_GT(near->size(), 100u);
  EXPECT_EQ(near->size(), far->size());
}

TEST(CodeScansTest, WhatATurnThrowsComesOut) {
  const auto run = [](bool throws) {
    std::atomic<int> done = 0;
    ShareTurns(1000, [&]() -> TurnWorker {
      return [&](size_t turn) {
        if (throws && turn == 10) throw std::bad_alloc();
        ++done;
      };
    });
    return done.load();
  };
  EXPECT_EQ(run(false), 1000);
  EXPECT_THROW(run(true), std::bad_alloc);
}

TEST(RowMakersTest, FunctionsForWhichThereIsNoTimeAreOneGap) {
  const auto file = OpenElf("/proc/self/exe");
  ASSERT_NE(file, nullptr);
  const ModuleImage image(file.get());
  const uint64_t target = FindSymbol(file.get(), "PatchWindowsTestCatches");
  const RowTargets targets{{}, {target}, {}, {}, {}};
  const auto calls = FindCalls(*file, {target}, kLongestAnalysisNs).sites;
  for (const int64_t limit_ns : {kLongestAnalysisNs, int64_t{-1}}) {
    ModuleFacts facts;
    RowMakerSearch search(image, targets, calls, limit_ns, &facts);
    search.AddGuards();
    EXPECT_EQ(search.is_cut(), limit_ns < 0);
    if (limit_ns < 0) EXPECT_EQ(facts.gaps.size(), 1u);
  }
}

TEST(FindPatchWindowsTest, PatchesAFunctionOfThisProgram) {
  const auto file = OpenElf("/proc/self/exe");
  ASSERT_NE(file, nullptr);
  const uint64_t address = FindSymbol(file.get(), "PatchWindowsTestCatches");
  const auto offset = file->FileOffset(address);
  ASSERT_TRUE(offset);
  const ModuleImage image(file.get(), ModuleImage::Symbols::kExported);
  ModulePlan module;
  module.points = {{*offset, PT_COOKIE(1, abi::PT_ROLE_BEGIN, 0, 0)},
                   {uint64_t{1} << 50, PT_COOKIE(1, abi::PT_ROLE_END, 0, 0)}};
  const std::vector<PointPatch> patches = FindPatchWindows(image, module, ProbePlan());
  ASSERT_EQ(patches.size(), 2u);
  EXPECT_EQ(patches[0].point, address);
  ASSERT_TRUE(patches[0].window) << patches[0].reason;
  EXPECT_GT(patches[0].window->address, address);
  EXPECT_FALSE(patches[1].window);
  EXPECT_FALSE(patches[1].reason.empty());

  char folder[] = "/tmp/symbols_windows_XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  module.held = HeldFile::Hold(UniqueFd(open("/proc/self/exe", O_RDONLY | O_CLOEXEC)));
  module.build_id = file->build_id();
  module.segments = file->segments();
  const WindowCache cache(folder);
  for (int i = 0; i < 2; ++i) {
    const std::vector<PointPatch> kept = FindKeptWindows(module, ProbePlan(), cache);
    EXPECT_EQ(EncodeWindows("", kept), EncodeWindows("", patches));
  }
  EXPECT_FALSE(std::filesystem::is_empty(folder));
  std::filesystem::remove_all(folder);
}

// A function of pushes and pops, and another one that jumps into its middle by a 4-byte distance; a
// third jumps there through a table, as a part of the first that lies apart.
asm(R"(
  .text
  .p2align 4
  .type PatchWindowsTestPushes, @function
PatchWindowsTestPushes:
  .cfi_startproc
  push %rbx
  push %r12
  push %r13
PatchWindowsTestMiddle:
  push %r14
  lea 32(%rsp), %rsp
  test %edi, %edi
  .byte 0x0f, 0x85
  .long PatchWindowsTestApart - . - 4
PatchWindowsTestEnd:
  lea 1(%rdi), %eax
PatchWindowsTestLate:
  nopl 0x0(%rax, %rax, 1)
  ret
  .cfi_endproc
  .size PatchWindowsTestPushes, . - PatchWindowsTestPushes
  .p2align 4
  .type PatchWindowsTestJumper, @function
PatchWindowsTestJumper:
  .cfi_startproc
  .byte 0xe9
  .long PatchWindowsTestMiddle - . - 4
  .cfi_endproc
  .p2align 4
  .type PatchWindowsTestApart, @function
PatchWindowsTestApart:
  .cfi_startproc
  cmp $1, %edi
  ja PatchWindowsTestApart
  lea PatchWindowsTestTable(%rip), %rdx
  movslq (%rdx, %rdi, 4), %rax
  add %rdx, %rax
  jmp *%rax
  .cfi_endproc
  .section .rodata
  .p2align 2
PatchWindowsTestTable:
  .long PatchWindowsTestLate - PatchWindowsTestTable
  .long PatchWindowsTestApart - PatchWindowsTestTable
  .text
)");

TEST(FindPatchWindowsTest, SeesJumpsFromOtherFunctions) {
  const auto file = OpenElf("/proc/self/exe");
  ASSERT_NE(file, nullptr);
  const uint64_t start = FindSymbol(file.get(), "PatchWindowsTestPushes");
  const uint64_t middle = FindSymbol(file.get(), "PatchWindowsTestMiddle");
  const uint64_t end = FindSymbol(file.get(), "PatchWindowsTestEnd");
  ASSERT_EQ(middle, start + 5);
  const ModuleImage image(file.get(), ModuleImage::Symbols::kExported);
  ModulePlan module;
  for (const uint64_t address : {start, end}) {
    module.points.push_back(
        {file->FileOffset(address).value(), PT_COOKIE(1, abi::PT_ROLE_BEGIN, 0, 0)});
  }
  const std::vector<PointPatch> patches = FindPatchWindows(image, module, ProbePlan());
  ASSERT_EQ(patches.size(), 2u);
  // Alone, the three pushes behind the first would be the window.
  EXPECT_FALSE(patches[0].window);
  EXPECT_THAT(std::string(patches[0].reason), HasSubstr("jumps into"));
  EXPECT_FALSE(patches[1].window);
  EXPECT_THAT(std::string(patches[1].reason), HasSubstr("jumps into"));
  const auto code = FunctionCode::Read(image, start, image.UnwindRangeAt(start)->end);
  ASSERT_TRUE(code.ok());
  EXPECT_TRUE(ChooseWindows(image, *code, {{start, {}}})[0].window);
  EXPECT_TRUE(ChooseWindows(image, *code, {{end, {}}})[0].window);
}

TEST(ReadsOfTest, TellsWhatARecordIsMadeOf) {
  ProbePlan plan;
  EXPECT_EQ(ReadsOf({0, PT_COOKIE(1, abi::PT_ROLE_END, 0, 0)}, plan).registers, 0u);
  const PointReads keys = ReadsOf(
      {0, PT_COOKIE(1, abi::PT_ROLE_OPERATOR_BEGIN, kRbp | PT_KEY_SET_IN_MEMORY, -24)}, plan);
  ASSERT_TRUE(keys.place);
  EXPECT_EQ(keys.place->base, kRbp);
  EXPECT_EQ(keys.place->offset, -24);
  EXPECT_EQ(keys.registers, Bit(kRbp));
  const PointReads boxed =
      ReadsOf({0, PT_COOKIE(1, abi::PT_ROLE_BOXED_BEGIN, abi::PT_RDI, abi::PT_RSI)}, plan);
  EXPECT_EQ(boxed.registers, Bit(kRdi) | Bit(kRsi));
  EXPECT_TRUE(boxed.memory);
}

// An operator's begin with inputs also reads its key set, which may be in any register.
TEST(ReadsOfTest, InputsAreInKeptRegistersAndInTheFrame) {
  ProbePlan plan;
  plan.signatures.resize(1);
  plan.signatures[0].begin = PT_COOKIE(0, 0, kRdx, 0);
  ProbePoint point{0, PT_COOKIE(1, abi::PT_ROLE_OPERATOR_CALL, 0, 0), 0, 1};
  const PointReads call = ReadsOf(point, plan);
  for (const unsigned reg : {3, 5, 12, 13, 14, 15, 2}) EXPECT_TRUE(call.registers & Bit(reg));
  EXPECT_TRUE(call.memory);
  point.cookie = PT_COOKIE(1, abi::PT_ROLE_SPILLED_INPUTS, 0, 0);
  const PointReads spilled = ReadsOf(point, plan);
  EXPECT_EQ(spilled.registers, Bit(kRbp));
  EXPECT_TRUE(spilled.memory);
}

}  // namespace
}  // namespace proftrace
