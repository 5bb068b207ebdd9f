#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "symbols/elf/elf_file.h"
#include "symbols/plan/displaced_code.h"
#include "symbols/plan/planner.h"
#include "symbols/plan/process.h"
#include "symbols/plan/torch_copies.h"
#include "symbols/process/process_maps.h"
#include "symbols/process/process_memory.h"
#include "symbols/torch/operator_registry.h"
#include "symbols/torch/version_layouts.h"
#include "tests/unit/symbols/fake_memory.h"
#include "userspace/base/exit_status.h"
#include "userspace/model/torch_rules.h"

namespace proftrace {
namespace {

constexpr uint64_t kSlot = 0x10;
constexpr uint64_t kHead = 0x1000;

void PutNode(FakeMemory* memory, uint64_t node, uint64_t next, uint64_t previous,
             const std::string& name, const std::string& overload) {
  memory->PutWord(node, next);
  memory->PutWord(node + 8, previous);
  memory->PutString(node + 16, name);
  memory->PutString(node + 48, overload);
}

void PutHead(FakeMemory* memory, uint64_t first, uint64_t last) {
  memory->PutWord(kSlot, kHead);
  memory->PutWord(kHead, first);
  memory->PutWord(kHead + 8, last);
}

TEST(OperatorListTest, ReadsNamesInAddressOrder) {
  FakeMemory memory;
  PutHead(&memory, 0x3000, 0x2000);
  PutNode(&memory, 0x3000, 0x2000, kHead, "aten::add", "Tensor");
  PutNode(&memory, 0x2000, kHead, 0x3000, "aten::a_name_that_is_not_short", "");
  const OperatorList list = ReadOperatorList(memory, kSlot, /*old_abi=*/false);
  const std::vector<OperatorInfo>& operators = list.operators;
  EXPECT_TRUE(list.is_whole);
  ASSERT_EQ(operators.size(), 2u);
  EXPECT_EQ(operators[0].address, 0x2010u);
  EXPECT_EQ(operators[0].name, "aten::a_name_that_is_not_short");
  EXPECT_EQ(operators[1].name, "aten::add");
  EXPECT_EQ(operators[1].overload_name, "Tensor");
}

TEST(OperatorListTest, ReadsOldStrings) {
  FakeMemory memory;
  PutHead(&memory, 0x2000, 0x2000);
  memory.PutWord(0x2000, kHead);
  memory.PutWord(0x2008, kHead);
  memory.PutOldString(0x2010, "aten::add");
  memory.PutOldString(0x2018, "Tensor");
  const OperatorList list = ReadOperatorList(memory, kSlot, /*old_abi=*/true);
  EXPECT_TRUE(list.is_whole);
  ASSERT_EQ(list.operators.size(), 1u);
  EXPECT_EQ(list.operators[0].name, "aten::add");
  EXPECT_EQ(list.operators[0].overload_name, "Tensor");
}

TEST(OperatorListTest, EndsInACycleThatMissesTheHead) {
  FakeMemory memory;
  PutHead(&memory, 0x2000, 0x3000);
  PutNode(&memory, 0x2000, 0x3000, kHead, "aten::a", "");
  PutNode(&memory, 0x3000, 0x2000, 0x2000, "aten::b", "");
  const OperatorList list = ReadOperatorList(memory, kSlot, false);
  EXPECT_EQ(list.operators.size(), 2u);
  EXPECT_FALSE(list.is_whole);
}

TEST(OperatorListTest, StopsAtHostileNodes) {
  FakeMemory memory;
  PutHead(&memory, 0x2000, 0x3000);
  PutNode(&memory, 0x2000, 0x3000, kHead, "aten::a", "");
  PutNode(&memory, 0x3000, kHead, 0x2000, "aten::b", "");
  EXPECT_TRUE(ReadOperatorList(memory, kSlot, false).is_whole);
  memory.PutWord(0x3018, uint64_t{1} << 40);  // length of the name
  EXPECT_EQ(ReadOperatorList(memory, kSlot, false).operators.size(), 1u);
  memory.PutWord(0x2000, 0xdead0000);  // next: not mapped
  EXPECT_EQ(ReadOperatorList(memory, kSlot, false).operators.size(), 1u);
  EXPECT_FALSE(ReadOperatorList(memory, kSlot, false).is_whole);
  memory.PutWord(kSlot, 0);
  EXPECT_TRUE(ReadOperatorList(memory, kSlot, false).operators.empty());
  EXPECT_TRUE(ReadOperatorList(memory, 0xffffffffffffff00, false).operators.empty());
}

TEST(OperatorListTest, ANodeWhosePlaceIsUsedAgainIsNoWayThrough) {
  FakeMemory memory;
  PutHead(&memory, 0x2000, 0x4000);
  PutNode(&memory, 0x2000, 0x3000, kHead, "aten::a", "");
  // Taken out, and now the last one: what lay between would be left out.
  PutNode(&memory, 0x3000, kHead, 0x4000, "mine::b", "");
  const OperatorList list = ReadOperatorList(memory, kSlot, false);
  EXPECT_EQ(list.operators.size(), 1u);
  EXPECT_FALSE(list.is_whole);
}

// A list that is changed between the reads of its words: the tail is another one each time until
// `settles_after` reads of the head.
class ChangingMemory : public FakeMemory {
 public:
  explicit ChangingMemory(int settles_after) : left_(settles_after) {}
  bool Read(uint64_t address, void* data, size_t bytes) const override {
    if (address == kHead + 8 && left_ > 0) {
      --left_;
      const uint64_t other = 0x9000;
      std::memcpy(data, &other, sizeof(other));
      return true;
    }
    return FakeMemory::Read(address, data, bytes);
  }

 private:
  mutable int left_;
};

TEST(OperatorListTest, AListThatChangesIsReadAgain) {
  for (const int settles_after : {3, 1000}) {
    ChangingMemory memory(settles_after);
    PutHead(&memory, 0x2000, 0x2000);
    PutNode(&memory, 0x2000, kHead, kHead, "aten::a", "");
    const OperatorList list = ReadOperatorList(memory, kSlot, false);
    EXPECT_EQ(list.operators.size(), 1u);
    EXPECT_EQ(list.is_whole, settles_after == 3);
  }
}

TEST(OperatorListTest, UnprintableNamesAreNotOperators) {
  FakeMemory memory;
  PutHead(&memory, 0x2000, 0x2000);
  PutNode(&memory, 0x2000, kHead, kHead, "aten::\n", "");
  const OperatorList list = ReadOperatorList(memory, kSlot, false);
  EXPECT_TRUE(list.operators.empty());
  EXPECT_FALSE(list.is_whole);
}

MappedFile Mapped(const char* path, uint64_t inode, int times = 1) {
  MappedFile file;
  file.path = path;
  file.inode = inode;
  for (int i = 0; i < times; ++i) {
    const uint64_t start = 0x100000u * static_cast<uint64_t>(i + 1);
    file.mappings.push_back({start, start + 0x1000, 0, false, true, 0, inode, path});
    file.mappings.push_back({start + 0x1000, start + 0x2000, 0x1000, true, true, 0, inode, path});
  }
  return file;
}

TEST(TorchCopiesTest, TheOneWithAPythonBindingIsChosen) {
  const TorchChoice choice = ChooseTorch(
      {Mapped("/a/libtorch_cpu.so", 1), Mapped("/a/libc10.so", 2), Mapped("/a/libstdc++.so.6", 3),
       Mapped("/b/libtorch_cpu.so", 4), Mapped("/b/libtorch_python.so", 5),
       Mapped("/b/libc10.so", 6), Mapped("/c/libtorchaudio.so", 7)});
  std::vector<uint64_t> kept;
  for (const MappedFile& file : choice.files) kept.push_back(file.inode);
  EXPECT_EQ(kept, (std::vector<uint64_t>{3, 4, 5, 6, 7}));
  EXPECT_EQ(choice.others, std::vector<std::string>{"/a/libtorch_cpu.so"});
  EXPECT_EQ(choice.all.size(), 7u) << "all are known when something is loaded later";
  EXPECT_TRUE(choice.repeated.empty());
  ProbePlan plan;
  plan.operators.resize(1);
  plan.autograd.emplace();
  ApplyChoice(choice, &plan);
  ASSERT_EQ(plan.gaps.size(), 1u);
  EXPECT_NE(plan.gaps[0].reason.find("/a/libtorch_cpu.so"), std::string::npos);
  EXPECT_TRUE(plan.autograd.has_value());
}

TEST(TorchCopiesTest, WithoutABindingItIsAlwaysTheSame) {
  const auto a = Mapped("/a/libtorch_cpu.so.1.13", 9);
  const auto b = Mapped("/b/libtorch_cpu.so.1.13", 4);
  for (const auto& files : {std::vector{a, b}, std::vector{b, a}}) {
    const TorchChoice choice = ChooseTorch(files);
    ASSERT_EQ(choice.files.size(), 1u);
    EXPECT_EQ(choice.files[0].inode, 9u);
  }
  EXPECT_EQ(ChooseTorch({a}).files.size(), 1u);
  EXPECT_TRUE(ChooseTorch({a}).others.empty());
}

TEST(TorchCopiesTest, AFileThatIsLoadedTwiceCountsTwice) {
  const TorchChoice choice =
      ChooseTorch({Mapped("/a/libtorch_cpu.so", 1, 2), Mapped("/a/libtorch_python.so", 2)});
  EXPECT_EQ(choice.files.size(), 2u);
  EXPECT_EQ(choice.repeated, "/a/libtorch_cpu.so");
  EXPECT_EQ(choice.all.size(), 3u);
  ProbePlan plan;
  plan.autograd.emplace();
  plan.has_input_probes = true;
  ApplyChoice(choice, &plan);
  EXPECT_FALSE(plan.autograd.has_value()) << "each copy counts for itself";
  EXPECT_FALSE(plan.has_input_probes);
  EXPECT_EQ(plan.gaps.size(), 2u);
  EXPECT_EQ(plan.files.size(), 3u);
}

TEST(OperatorNameTest, MatchesTheSymbols) {
  EXPECT_EQ(OperatorSymbolIdentifier("aten::add", "Tensor"), "add_Tensor");
  EXPECT_EQ(OperatorSymbolIdentifier("aten::relu", ""), "relu");
  EXPECT_TRUE(IsUnobserved("aten::size"));
  EXPECT_FALSE(IsUnobserved("aten::sizes"));
}

TEST(MapsTest, ReadsPathsWithBlanksAndDeletedFiles) {
  const auto maps = ParseMaps(
      "7f0000000000-7f0000001000 r-xp 00002000 fd:01 123                        /a b/lib x.so "
      "(deleted)\n"
      "7f0000002000-7f0000003000 rw-p 00000000 00:00 0 \n"
      "7f0000003000-7f0000004000 r--p 00000000 fd:01 124    /tmp/a\\012b\n");
  ASSERT_EQ(maps.size(), 3u);
  EXPECT_EQ(maps[0].path, "/a b/lib x.so (deleted)");
  EXPECT_TRUE(maps[0].executable);
  EXPECT_EQ(maps[0].file_offset, 0x2000u);
  EXPECT_EQ(maps[0].inode, 123u);
  EXPECT_EQ(maps[1].path, "");
  EXPECT_EQ(maps[2].path, "/tmp/a\nb");
}

TEST(MapsTest, LeavesOutWhatIsNoMapping) {
  EXPECT_TRUE(ParseMaps("").empty());
  EXPECT_TRUE(ParseMaps("garbage\n\n-\nff-00 r-xp 0 0:0 0\n").empty());
  EXPECT_TRUE(ParseMaps("1-2 r-x").empty());
  EXPECT_TRUE(ParseMaps("11111111111111111-2 r-xp 0 0:0 1 /x").empty());
}

TEST(MapsTest, GroupsByFileAndNeedsExecutableParts) {
  const auto files =
      GroupByFile(ParseMaps("1000-2000 r--p 0 8:1 5 /x\n"
                            "2000-4000 r-xp 1000 8:1 5 /x\n"
                            "5000-6000 r--p 0 8:1 6 /data\n"));
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].mappings.size(), 2u);
  EXPECT_EQ(files[0].executable_bytes, 0x2000u);
}

TEST(MapsTest, FilesWithTheSameNumbersAreToldApartByTheirPaths) {
  const auto files =
      GroupByFile(ParseMaps("1000-2000 r-xp 0 0:1f 5 /a/x\n"
                            "2000-3000 r-xp 0 0:1f 5 /b/x\n"));
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[1].path, "/b/x");
}

MappedFile OwnProgram() {
  const auto maps = ReadMaps(Pid{static_cast<uint32_t>(getpid())});
  EXPECT_TRUE(maps.ok());
  const std::string path = std::filesystem::read_symlink("/proc/self/exe");
  for (const MappedFile& file : GroupByFile(*maps)) {
    if (file.path == path) return file;
  }
  ADD_FAILURE() << "not mapped";
  return {};
}

TEST(LoadedPlaceTest, OtherMappingsOfTheFileDoNotSayWhereItIsLoaded) {
  const MappedFile plain = OwnProgram();
  const auto file = ElfFile::Open(UniqueFd(open("/proc/self/exe", O_RDONLY | O_CLOEXEC)));
  ASSERT_TRUE(file.ok()) << file.status();
  const auto place = FindLoadedPlace(**file, plain);
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->mappings.size(), plain.mappings.size());
  EXPECT_TRUE(place->mappings[0].executable);
  for (const bool executable : {false, true}) {
    for (const uint64_t start : {uint64_t{0x10000}, uint64_t{0x7fffffff0000}}) {
      MappedFile mapped = plain;
      Mapping data = plain.mappings[0];
      data.start = start;
      data.end = start + 0x8000;
      data.file_offset = 0;
      data.executable = executable;
      const bool is_below = start < plain.mappings[0].start;
      mapped.mappings.insert(is_below ? mapped.mappings.begin() : mapped.mappings.end(), data);
      const auto found = FindLoadedPlace(**file, mapped);
      ASSERT_TRUE(found.has_value());
      EXPECT_EQ(found->bias, place->bias);
      EXPECT_EQ(found->mappings, place->mappings);
      EXPECT_EQ(LoadBias(**file, mapped), place->bias);
    }
  }
  MappedFile none = plain;
  std::erase_if(none.mappings, [](const Mapping& mapping) { return mapping.executable; });
  EXPECT_FALSE(LoadBias(**file, none).has_value());
}

TEST(TorchVersionTest, ReadsVersionFiles) {
  const TorchVersion version = ParseTorchVersion(
      "from typing import Optional\n__version__ = '2.11.0+cu130'\ncuda: Optional[str] = '13.0'\n");
  EXPECT_EQ(version.torch, "2.11.0+cu130");
  EXPECT_EQ(version.cuda, "13.0");
  EXPECT_EQ(ParseTorchVersion("__version__ = '1.13.0a0'\ncuda = None\n").cuda, "");
  EXPECT_EQ(ParseTorchVersion("__version__ = '\x1b[2J'\n").torch, "");
  EXPECT_EQ(ParseTorchVersion("__version__ = 'unfinished").torch, "");
}

class TorchVersionFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_ / "torch");
    std::ofstream(folder_ / "torch/version.py") << "__version__ = '2.11.0+cu130'\ncuda = '13.0'\n";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // A file of this process, as far as its numbers say.
  MappedFile Add(const char* path) {
    MappedFile file;
    file.path = folder_ / path;
    std::filesystem::create_directories(std::filesystem::path(file.path).parent_path());
    std::ofstream(file.path) << "library";
    struct stat status {};
    EXPECT_EQ(stat(file.path.c_str(), &status), 0);
    file.device = status.st_dev;
    file.inode = status.st_ino;
    return file;
  }
  static std::string Version(const std::vector<MappedFile>& files) {
    return FindTorchVersion(Pid{static_cast<uint32_t>(getpid())}, files).torch;
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / "torch" / std::to_string(getpid());
};

TEST_F(TorchVersionFileTest, IsThePackagesInAFolderThatIsCalledTorchToo) {
  EXPECT_EQ(Version({Add("torch/lib/libtorch_cpu.so")}), "2.11.0+cu130");
  // That one has none.
  EXPECT_EQ(Version({Add("torch/torch_extension/torch/lib/libmine.so")}), "2.11.0+cu130");
}

TEST_F(TorchVersionFileTest, ALibraryThatWasReplacedOrDeletedIsNotOfTodaysVersion) {
  const MappedFile binding = Add("torch/_C.so");
  MappedFile library = Add("torch/lib/libtorch_cpu.so");
  EXPECT_EQ(Version({binding, library}), "2.11.0+cu130");
  const std::string newer = library.path + ".new";
  std::ofstream(newer) << "another";
  std::filesystem::rename(newer, library.path);
  EXPECT_EQ(Version({binding, library}), "") << "and this process has no torch to ask";
  std::filesystem::remove(library.path);
  library.path += " (deleted)";
  EXPECT_EQ(Version({binding, library}), "");
  EXPECT_EQ(Version({binding}), "2.11.0+cu130");
}

TEST(PythonNodeTest, UnknownVersionsHaveNoOffset) {
  EXPECT_EQ(PythonNodeObjectOffset("1.13.0a0"), 392u);
  EXPECT_EQ(PythonNodeObjectOffset("2.11.0+cu130"), 472u);
  EXPECT_EQ(PythonNodeObjectOffset("2.15.0"), 112u);
  EXPECT_EQ(PythonNodeObjectOffset("2.12.0"), 472u);
  EXPECT_EQ(PythonNodeObjectOffset("2.13.0"), 112u);
  EXPECT_EQ(PythonNodeObjectOffset("2.16.0"), 0u);
  EXPECT_EQ(PythonNodeObjectOffset(""), 0u);
  EXPECT_EQ(NodeOffsetsOf("2.11.0+cu130").value_or(NodeOffsets()).sequence, 24u);
  EXPECT_EQ(NodeOffsetsOf("2.15.0").value_or(NodeOffsets()).thread, 40u);
  EXPECT_EQ(NodeOffsetsOf("2.12.0").value_or(NodeOffsets()).thread, 48u);
  EXPECT_FALSE(NodeOffsetsOf("2.16.0").has_value());
}

TEST(ProcessInfoTest, DescribesThisProcess) {
  const auto info = ReadProcessInfo(Pid{static_cast<uint32_t>(getpid())});
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(Raw(info->parent), static_cast<uint32_t>(getppid()));
  EXPECT_GE(info->threads, 1u);
  EXPECT_FALSE(info->comm.empty());
  EXPECT_FALSE(info->exe.empty());
  ASSERT_FALSE(info->cmdline.empty());
  EXPECT_EQ(info->user_id, getuid());
  EXPECT_GT(info->start_ticks, 0u);
}

TEST(TargetFilesTest, PathsOfAChrootedProcessAreTakenFromItsRoot) {
  EXPECT_EQ(PathBelowRoot("/srv/sid/usr/lib/a.so", "/srv/sid"), "/usr/lib/a.so");
  EXPECT_EQ(PathBelowRoot("/srv/side/a.so", "/srv/sid"), "/srv/side/a.so");
  EXPECT_EQ(PathBelowRoot("/usr/lib/a.so", "/srv/sid"), "/usr/lib/a.so");
  EXPECT_EQ(PathBelowRoot("/usr/lib/a.so", "/"), "/usr/lib/a.so");
  EXPECT_EQ(PathBelowRoot("/usr/lib/a.so", ""), "/usr/lib/a.so");
}

TEST(TargetFilesTest, OnlyRegularFilesInsideTheTargetsRootAreOpened) {
  const Pid self{static_cast<uint32_t>(getpid())};
  EXPECT_EQ(OpenInTargetRoot(self, "/dev/zero"), nullptr);
  EXPECT_EQ(OpenInTargetRoot(self, "/proc"), nullptr);
  EXPECT_EQ(OpenInTargetRoot(self, "/no/such/file"), nullptr);
}

TEST(TargetFilesTest, AMappedFileIsKnownByItsBeginWhereItsNumbersDiffer) {
  const Pid self{static_cast<uint32_t>(getpid())};
  const absl::StatusOr<std::vector<Mapping>> maps = ReadMaps(self);
  ASSERT_TRUE(maps.ok());
  const std::vector<MappedFile> files = GroupByFile(*maps);
  ASSERT_GE(files.size(), 2u);
  MappedFile file = files[0];
  EXPECT_TRUE(OpenMappedFileByPath(self, file).ok());
  file.inode += 1;
  const absl::StatusOr<OpenedFile> opened = OpenMappedFileByPath(self, file);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->path.find("/proc/"), 0u);
  // Another one lies at the path.
  file.path = files[1].path;
  EXPECT_FALSE(OpenMappedFileByPath(self, file).ok());
  file.path += " (deleted)";
  EXPECT_FALSE(OpenMappedFileByPath(self, file).ok());
}

TEST(TargetFilesTest, ValuesOfAStatusFile) {
  constexpr std::string_view kStatus =
      "Name:\tState: R\nState:\tS "
      "(sleeping)\nNSpid:\t4711\t7\nSeccomp_filters:\t3\nSeccomp:\t2\nNone:\n";
  EXPECT_EQ(StatusValue(kStatus, "State"), "S (sleeping)");
  EXPECT_EQ(StatusValue(kStatus, "NSpid"), "4711\t7");
  EXPECT_EQ(StatusValue(kStatus, "Seccomp"), "2");
  EXPECT_EQ(StatusValue(kStatus, "None"), "");
  EXPECT_EQ(StatusValue(kStatus, "Other"), "");
}

TEST(TargetFilesTest, NumberedEntriesOfAFolder) {
  const std::vector<uint32_t> threads = ReadNumberedEntries("/proc/self/task");
  EXPECT_NE(std::find(threads.begin(), threads.end(), static_cast<uint32_t>(getpid())),
            threads.end());
  EXPECT_TRUE(ReadNumberedEntries("/proc/self/attr").empty());
  EXPECT_TRUE(ReadNumberedEntries("/no/such/folder").empty());
}

constexpr char kLibrary[] =
    "7f0000000000-7f0000400000 r--p 00000000 08:01 77 /env/libtorch_cpu.so\n"
    "%s"
    "7f0001200000-7f0001400000 r--p 01200000 08:01 77 /env/libtorch_cpu.so\n"
    "7f0001400000-7f0001500000 rw-p 013ff000 08:01 77 /env/libtorch_cpu.so\n";

std::vector<std::string> Displaced(const std::string& code) {
  std::string text = kLibrary;
  return FindDisplacedCode(ParseMaps(text.replace(text.find("%s"), 2, code)));
}

TEST(DisplacedCodeTest, CodeOfTheFileIsWhereItBelongs) {
  EXPECT_TRUE(
      Displaced("7f0000400000-7f0001200000 r-xp 00400000 08:01 77 /env/libtorch_cpu.so\n").empty());
}

TEST(DisplacedCodeTest, CopiesInAnonymousMemoryAndInAMemfd) {
  const std::vector<std::string> library = {"/env/libtorch_cpu.so"};
  EXPECT_EQ(Displaced("7f0000400000-7f0001200000 r-xp 00000000 00:00 0 \n"), library);
  EXPECT_EQ(Displaced("7f0000400000-7f0001000000 r-xs 00000000 00:01 12 /memfd:text (deleted)\n"
                      "7f0001000000-7f0001200000 r-xp 00000000 00:00 0 \n"),
            library);
}

TEST(DisplacedCodeTest, WhereAPartIsLeftItCanBeProbed) {
  EXPECT_TRUE(Displaced("7f0000400000-7f0001000000 r-xp 00000000 00:00 0 \n"
                        "7f0001000000-7f0001200000 r-xp 01000000 08:01 77 /env/libtorch_cpu.so\n")
                  .empty());
}

TEST(DisplacedCodeTest, AFileWithoutCodeHasNoneToMiss) {
  EXPECT_TRUE(Displaced("").empty());
  EXPECT_TRUE(Displaced("7f0000400000-7f0001200000 ---p 00000000 00:00 0 \n").empty());
}

TEST(DisplacedCodeTest, OnlyALibraryOfTorchEndsTheSearch) {
  EXPECT_TRUE(CheckTorchHasCode(Pid{17}, {"/usr/bin/server"}).ok());
  const absl::Status status = CheckTorchHasCode(Pid{17}, {"/usr/bin/server", "/a/libtorch_cpu.so"});
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kHostUnfit);
  EXPECT_NE(status.message().find("/a/libtorch_cpu.so"), std::string::npos);
}

TEST(MapsTest, SharedMappingsAreToldApart) {
  const std::vector<Mapping> mappings = ParseMaps(
      "7f0000400000-7f0001000000 r-xs 00000000 08:01 12 /a\n"
      "7f0001000000-7f0001200000 r-xp 00000000 08:01 12 /a\n");
  ASSERT_EQ(mappings.size(), 2u);
  EXPECT_TRUE(mappings[0].shared);
  EXPECT_FALSE(mappings[1].shared);
}

TEST(ProcessTest, TimeOffsetsAreWholeSecondsAndARest) {
  ProcessInfo info;
  ReadTimeOffsets("monotonic       -3600         5\nboottime     86400  999999999\n", &info);
  EXPECT_EQ(info.monotonic_offset_ns, -3'600'000'000'000 + 5);
  EXPECT_EQ(info.boottime_offset_ns, 86'400'999'999'999);
  for (const char* text : {"", "monotonic 1", "monotonic x 0", "monotonic 1 1000000000",
                           "monotonic 9223372036854775807 0", "monotonic 1 -1"}) {
    ProcessInfo none;
    ReadTimeOffsets(text, &none);
    EXPECT_EQ(none.monotonic_offset_ns, std::nullopt) << text;
  }
}

TEST(ProcessTest, TheControlGroupIsThatOfTheUnifiedHierarchyElseOfMemory) {
  EXPECT_EQ(ControlGroupOf("0::/kubepods.slice/pod:1\n"), "/kubepods.slice/pod:1");
  EXPECT_EQ(ControlGroupOf("4:memory:/job/7\n1:cpu:/x\n0::/\n"), "/job/7");
  EXPECT_EQ(ControlGroupOf("4:memory:/\n0::/user.slice\n"), "/user.slice");
  EXPECT_EQ(ControlGroupOf("0::/\n"), "/");
  EXPECT_EQ(ControlGroupOf("no groups\n"), "");
}

}  // namespace
}  // namespace proftrace
