// What reading of a process may cost, and what readers do where that is used up.
#include "symbols/process/read_budget.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "symbols/elf/elf_file.h"
#include "symbols/elf/module_image.h"
#include "symbols/process/process_memory.h"
#include "userspace/base/clock.h"

namespace proftrace {
namespace {

TEST(ReadBudgetTest, ReadsFailWhenTheBytesAreUsedUp) {
  ReadBudget budget({.bytes = 4096});
  const ReadBudget::Scope scope(&budget);
  const ProcessMemory memory(Pid{static_cast<uint32_t>(getpid())});
  uint64_t word = 7;
  uint64_t copy = 0;
  size_t reads = 0;
  while (memory.Read(reinterpret_cast<uint64_t>(&word), &copy, sizeof(copy)) && reads < 1000) {
    ++reads;
  }
  EXPECT_EQ(copy, 7u);
  EXPECT_GT(reads, 10u);
  EXPECT_LT(reads, 1000u);
  EXPECT_TRUE(budget.is_used_up());
  EXPECT_EQ(budget.Why(), "there is more than 0 MB to be read");
}

TEST(ReadBudgetTest, TheStopFlagEndsLoopsAndReads) {
  std::atomic<bool> stop = false;
  ReadBudget outer({.stop = &stop});
  const ReadBudget::Scope outer_scope(&outer);
  ReadBudget inner({.cpu_ns = 3'600'000'000'000});
  const ReadBudget::Scope scope(&inner);
  EXPECT_TRUE(ReadBudget::PayAll(1));
  stop = true;
  size_t turns = 0;
  while (ReadBudget::MayGoOn() && turns < 1'000'000) ++turns;
  EXPECT_LT(turns, 10'000u);
  EXPECT_FALSE(ReadBudget::PayAll(1));
  EXPECT_TRUE(inner.is_used_up());
  EXPECT_EQ(inner.Why(), "proftrace was asked to end");
}

TEST(ReadBudgetTest, ProcessorTimeIsLimitedForHelpersToo) {
  ReadBudget budget({.cpu_ns = 20'000'000});
  const ReadBudget::Scope scope(&budget);
  const ReadBudget::Share share;
  std::thread helper([&] {
    const ReadBudget::Join join(share);
    const int64_t begin_ns = ThreadCpuNs();
    while (ReadBudget::MayGoOn() && ThreadCpuNs() - begin_ns < 10'000'000'000) {
    }
    EXPECT_LT(ThreadCpuNs() - begin_ns, 5'000'000'000);
  });
  helper.join();
  EXPECT_TRUE(budget.is_used_up());
  EXPECT_FALSE(ReadBudget::PayAll(0));
}

TEST(ReadBudgetTest, WithoutAScopeThereIsNoLimit) {
  EXPECT_TRUE(ReadBudget::PayAll(UINT64_MAX));
  EXPECT_TRUE(ReadBudget::MayGoOn());
}

TEST(ReadBudgetTest, RoomThatIsGivenBackCanBeTakenAgain) {
  ReadBudget budget({.kept_bytes = 100});
  EXPECT_TRUE(budget.Keep(60));
  budget.Release(60);
  EXPECT_TRUE(budget.Keep(100));
  EXPECT_FALSE(budget.Keep(1));
  EXPECT_TRUE(budget.is_used_up());
}

// A sparse file: a few KB on the disk, and tables as large as the test says.
class SparseElf {
 public:
  // `relocations`: that many SHT_RELA sections, all over the same bytes.
  SparseElf(uint64_t table_bytes, uint16_t relocations) : table_bytes_(table_bytes) {
    sections_.resize(4);
    sections_[1] = {.sh_type = SHT_DYNSYM,
                    .sh_flags = SHF_ALLOC,
                    .sh_offset = kTables,
                    .sh_size = table_bytes,
                    .sh_link = 2,
                    .sh_entsize = sizeof(Elf64_Sym)};
    sections_[2] = {
        .sh_type = SHT_STRTAB, .sh_offset = kTables + table_bytes, .sh_size = table_bytes};
    sections_[3] = {.sh_type = SHT_STRTAB, .sh_offset = kNames, .sh_size = 16};
    for (uint16_t i = 0; i < relocations; ++i) {
      sections_.push_back({.sh_type = SHT_RELA,
                           .sh_offset = kTables,
                           .sh_size = table_bytes,
                           .sh_link = 1,
                           .sh_entsize = sizeof(Elf64_Rela)});
    }
  }

  absl::StatusOr<std::unique_ptr<ElfFile>> Open() const {
    UniqueFd fd(memfd_create("sparse", MFD_CLOEXEC));
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_version = EV_CURRENT;
    header.e_machine = EM_X86_64;
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = static_cast<uint16_t>(sections_.size());
    header.e_shstrndx = 3;
    header.e_shoff = kTables + 2 * table_bytes_;
    const size_t bytes = sections_.size() * sizeof(Elf64_Shdr);
    EXPECT_EQ(pwrite(fd.get(), &header, sizeof(header), 0), ssize_t{sizeof(header)});
    EXPECT_EQ(pwrite(fd.get(), sections_.data(), bytes, static_cast<off_t>(header.e_shoff)),
              static_cast<ssize_t>(bytes));
    return ElfFile::Open(std::move(fd));
  }

  std::vector<Elf64_Shdr> sections_;

 private:
  static constexpr uint64_t kNames = 1024;
  static constexpr uint64_t kTables = 4096;
  uint64_t table_bytes_;
};

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kIsSanitized = true;
#elif defined(__has_feature)
constexpr bool kIsSanitized = __has_feature(address_sanitizer);
#else
constexpr bool kIsSanitized = false;
#endif

TEST(ReadBudgetTest, SectionsThatLieOverEachOtherAreReadAsFarAsTheBudgetGoes) {
  auto file = SparseElf(uint64_t{kIsSanitized ? 1u : 16u} << 20, 4000).Open();
  ASSERT_TRUE(file.ok()) << file.status();
  // The sanitizers look at each byte, which takes minutes: a part of it is enough for them.
  ReadBudget around({.bytes = kIsSanitized ? uint64_t{256} << 20 : UINT64_MAX});
  const ReadBudget::Scope scope(&around);
  const int64_t begin_ns = ThreadCpuNs();
  (*file)->PltNames();
  EXPECT_LT(ThreadCpuNs() - begin_ns, 20'000'000'000);
  EXPECT_TRUE(around.is_used_up() || (*file)->is_cut());
  EXPECT_EQ((*file)->is_cut(), (*file)->WhyCut() != "");
}

TEST(ReadBudgetTest, TablesInHolesTakeNoMemory) {
  auto file = SparseElf(uint64_t{256} << 20, 0).Open();
  ASSERT_TRUE(file.ok()) << file.status();
  size_t symbols = 0;
  (*file)->ForEachSymbol(/*full=*/false, [&](const ElfSymbol&) { ++symbols; });
  EXPECT_EQ(symbols, 0u);
  EXPECT_TRUE((*file)->is_cut());
}

TEST(ReadBudgetTest, MoreSectionsThanAnyFileHasAreRefusedBeforeMemoryIsTaken) {
  SparseElf elf(4096, 4093);
  EXPECT_FALSE(elf.Open().ok());
  // More than fit into the header's field.
  elf.sections_.resize(4);
  elf.sections_[0].sh_size = uint64_t{1} << 40;
  UniqueFd fd(memfd_create("many", MFD_CLOEXEC));
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_version = EV_CURRENT;
  header.e_machine = EM_X86_64;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shoff = 64;
  ASSERT_EQ(pwrite(fd.get(), &header, sizeof(header), 0), ssize_t{sizeof(header)});
  ASSERT_EQ(pwrite(fd.get(), elf.sections_.data(), sizeof(Elf64_Shdr), 64),
            ssize_t{sizeof(Elf64_Shdr)});
  ASSERT_EQ(ftruncate(fd.get(), off_t{1} << 50), 0);
  const auto held = HeldFile::Hold(std::move(fd));
  ASSERT_NE(held, nullptr);
  EXPECT_FALSE(ElfFile::HasBoundedHead(*held));
  EXPECT_FALSE(ElfFile::Open(held).ok());
}

}  // namespace
}  // namespace proftrace
