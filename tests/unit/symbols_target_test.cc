#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "symbols/operator_registry.h"
#include "symbols/planner.h"
#include "symbols/process.h"
#include "symbols/process_maps.h"
#include "symbols/process_memory.h"
#include "symbols/version_layouts.h"
#include "tests/unit/symbols_fake_memory.h"
#include "userspace/model/torch_rules.h"

namespace proftrace {
namespace {

constexpr uint64_t kSlot = 0x10;
constexpr uint64_t kHead = 0x1000;

void PutNode(FakeMemory* memory, uint64_t node, uint64_t next, const std::string& name,
             const std::string& overload) {
  memory->PutWord(node, next);
  memory->PutWord(node + 8, 0);
  memory->PutString(node + 16, name);
  memory->PutString(node + 48, overload);
}

TEST(OperatorListTest, ReadsNamesInAddressOrder) {
  FakeMemory memory;
  memory.PutWord(kSlot, kHead);
  memory.PutWord(kHead, 0x3000);
  PutNode(&memory, 0x3000, 0x2000, "aten::add", "Tensor");
  PutNode(&memory, 0x2000, kHead, "aten::a_name_that_is_not_short", "");
  const auto operators = ReadOperatorList(memory, kSlot, /*old_abi=*/false);
  ASSERT_EQ(operators.size(), 2u);
  EXPECT_EQ(operators[0].address, 0x2010u);
  EXPECT_EQ(operators[0].name, "aten::a_name_that_is_not_short");
  EXPECT_EQ(operators[1].name, "aten::add");
  EXPECT_EQ(operators[1].overload_name, "Tensor");
}

TEST(OperatorListTest, ReadsOldStrings) {
  FakeMemory memory;
  memory.PutWord(kSlot, kHead);
  memory.PutWord(kHead, 0x2000);
  memory.PutWord(0x2000, kHead);
  memory.PutWord(0x2008, 0);
  memory.PutOldString(0x2010, "aten::add");
  memory.PutOldString(0x2018, "Tensor");
  const auto operators = ReadOperatorList(memory, kSlot, /*old_abi=*/true);
  ASSERT_EQ(operators.size(), 1u);
  EXPECT_EQ(operators[0].name, "aten::add");
  EXPECT_EQ(operators[0].overload_name, "Tensor");
}

TEST(OperatorListTest, EndsInACycleThatMissesTheHead) {
  FakeMemory memory;
  memory.PutWord(kSlot, kHead);
  memory.PutWord(kHead, 0x2000);
  PutNode(&memory, 0x2000, 0x3000, "aten::a", "");
  PutNode(&memory, 0x3000, 0x2000, "aten::b", "");
  EXPECT_EQ(ReadOperatorList(memory, kSlot, false).size(), 2u);
}

TEST(OperatorListTest, StopsAtHostileNodes) {
  FakeMemory memory;
  memory.PutWord(kSlot, kHead);
  memory.PutWord(kHead, 0x2000);
  PutNode(&memory, 0x2000, 0x3000, "aten::a", "");
  PutNode(&memory, 0x3000, kHead, "aten::b", "");
  memory.PutWord(0x3018, uint64_t{1} << 40);  // length of the name
  EXPECT_EQ(ReadOperatorList(memory, kSlot, false).size(), 1u);
  memory.PutWord(0x2000, 0xdead0000);  // next: not mapped
  EXPECT_EQ(ReadOperatorList(memory, kSlot, false).size(), 1u);
  memory.PutWord(kSlot, 0);
  EXPECT_TRUE(ReadOperatorList(memory, kSlot, false).empty());
  EXPECT_TRUE(ReadOperatorList(memory, 0xffffffffffffff00, false).empty());
}

TEST(OperatorListTest, UnprintableNamesAreNotOperators) {
  FakeMemory memory;
  memory.PutWord(kSlot, kHead);
  memory.PutWord(kHead, 0x2000);
  PutNode(&memory, 0x2000, kHead, "aten::\n", "");
  EXPECT_TRUE(ReadOperatorList(memory, kSlot, false).empty());
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

TEST(TorchVersionTest, ReadsVersionFiles) {
  const TorchVersion version = ParseTorchVersion(
      "from typing import Optional\n__version__ = '2.11.0+cu130'\ncuda: Optional[str] = '13.0'\n");
  EXPECT_EQ(version.torch, "2.11.0+cu130");
  EXPECT_EQ(version.cuda, "13.0");
  EXPECT_EQ(ParseTorchVersion("__version__ = '1.13.0a0'\ncuda = None\n").cuda, "");
  EXPECT_EQ(ParseTorchVersion("__version__ = '\x1b[2J'\n").torch, "");
  EXPECT_EQ(ParseTorchVersion("__version__ = 'unfinished").torch, "");
}

TEST(PythonNodeTest, UnknownVersionsHaveNoOffset) {
  EXPECT_EQ(PythonNodeObjectOffset("1.13.0a0"), 392u);
  EXPECT_EQ(PythonNodeObjectOffset("2.11.0+cu130"), 472u);
  EXPECT_EQ(PythonNodeObjectOffset("2.15.0"), 112u);
  EXPECT_EQ(PythonNodeObjectOffset("2.12.0"), 0u);
  EXPECT_EQ(PythonNodeObjectOffset(""), 0u);
  EXPECT_EQ(NodeOffsetsOf("2.11.0+cu130").value_or(NodeOffsets()).sequence, 24u);
  EXPECT_EQ(NodeOffsetsOf("2.15.0").value_or(NodeOffsets()).thread, 40u);
  EXPECT_FALSE(NodeOffsetsOf("2.12.0").has_value());
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

TEST(TargetFilesTest, OnlyRegularFilesInsideTheTargetsRootAreOpened) {
  const Pid self{static_cast<uint32_t>(getpid())};
  EXPECT_FALSE(OpenInTargetRoot(self, "/dev/zero").valid());
  EXPECT_FALSE(OpenInTargetRoot(self, "/proc").valid());
  EXPECT_FALSE(OpenInTargetRoot(self, "/no/such/file").valid());
}

}  // namespace
}  // namespace proftrace
