#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "symbols/plan/cache_folder.h"
#include "symbols/plan/plan_cache.h"
#include "symbols/plan/program_identity.h"
#include "symbols/plan/window_cache.h"

namespace proftrace {
namespace {

namespace fs = std::filesystem;

ModuleFacts SomeFacts() {
  ModuleFacts facts;
  ProbedFunction function;
  function.role = FunctionRole::kBoxed;
  function.exit_rule = ExitRule::kSiteSet;
  function.argument = 1;
  function.stack_argument = 2;
  function.begin = 0x40;
  function.callbacks = {0x44, 5 | PT_KEY_SET_IN_MEMORY, -0x178, 21};
  function.ends = {0x50, 0x60};
  function.arguments = {{{1, 2, 3, true, 0x104}, {7, 0, 8, false, 96}}, 5};
  function.symbol = "f";
  facts.functions.push_back(function);
  facts.gaps.push_back({"feature", "reason"});
  RowProbe probe{0x70, abi::PT_ROLE_GUARD_BEGIN, 7, -8, abi::pt_place{}, {}};
  probe.inputs.kind = RowInputKind::kLastValues;
  probe.inputs.words.resize(2);
  probe.inputs.words[0] = {0, {8, 16}, 5, 2, abi::PT_PLACE_WORD, 0, 0, 0, 0, {}};
  probe.inputs.words[1] = {3, {}, abi::PT_PLACE_CONSTANT, 1, abi::PT_PLACE_WORD, 0, 0, 0, 0, {}};
  probe.place->base = 3;
  probe.place->count = 2;
  probe.place->offsets[0] = -24;
  facts.rows.push_back({"g", "detach", {probe}});
  facts.rows.push_back({"r", "", {{0x90, abi::PT_ROLE_RANGE_PUSH, 0, 0, std::nullopt, {}}}});
  facts.row_ends.push_back({0x80, abi::PT_ROLE_GUARD_END, 7, 0, std::nullopt, {}});
  facts.dispatcher_slot = 0x123;
  facts.callbacks_entry = 0x28;
  facts.callbacks_next = 0x2a;
  facts.autograd.state = {0x10, 0x18};
  facts.autograd.grad_mode_offset = 8;
  facts.autograd.lowest_key = 36;
  facts.old_string_abi = true;
  return facts;
}

class PlanCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/symbols_cache_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    directory_ = folder_ / "sub" / "cache";
    auto file = ElfFile::Open(UniqueFd(open("/proc/self/exe", O_RDONLY | O_CLOEXEC)));
    ASSERT_TRUE(file.ok()) << file.status();
    file_ = *std::move(file);
    held_ = HeldFile::Hold(UniqueFd(open("/proc/self/exe", O_RDONLY | O_CLOEXEC)));
    ASSERT_NE(held_, nullptr);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path Entry() const { return fs::directory_iterator(directory_)->path(); }

  fs::path folder_;
  fs::path directory_;
  std::unique_ptr<ElfFile> file_;
  std::shared_ptr<const HeldFile> held_;
};

TEST_F(PlanCacheTest, GivesBackWhatWasStored) {
  const PlanCache cache(directory_.string());
  ASSERT_TRUE(cache.usable());
  EXPECT_FALSE(cache.Load(*held_, "id"));
  cache.Store(*held_, "id", SomeFacts());
  const auto facts = cache.Load(*held_, "id");
  ASSERT_TRUE(facts);
  ASSERT_EQ(facts->functions.size(), 1u);
  EXPECT_EQ(facts->functions[0].ends, (std::vector<uint64_t>{0x50, 0x60}));
  EXPECT_EQ(facts->functions[0].stack_argument, 2);
  EXPECT_EQ(facts->functions[0].callbacks.key_set_offset, -0x178);
  EXPECT_EQ(facts->functions[0].callbacks.frame_words, 21);
  EXPECT_EQ(facts->functions[0].arguments.pieces, SomeFacts().functions[0].arguments.pieces);
  EXPECT_EQ(facts->functions[0].arguments.stack_words, 5);
  EXPECT_EQ(facts->callbacks_next, 0x2au);
  EXPECT_EQ(facts->autograd.state.offset, 0x18);
  EXPECT_EQ(facts->autograd.grad_mode_offset, 8);
  EXPECT_EQ(facts->autograd.lowest_key, 36);
  EXPECT_EQ(facts->functions[0].symbol, "f");
  EXPECT_EQ(facts->dispatcher_slot, 0x123u);
  EXPECT_TRUE(facts->old_string_abi);
  ASSERT_EQ(facts->gaps.size(), 1u);
  ASSERT_EQ(facts->rows.size(), 2u);
  EXPECT_EQ(facts->rows[0].literal, "detach");
  ASSERT_EQ(facts->rows[0].probes.size(), 1u);
  EXPECT_EQ(facts->rows[0].probes[0].handle_offset, -8);
  ASSERT_TRUE(facts->rows[0].probes[0].place);
  EXPECT_EQ(facts->rows[0].probes[0].place->offsets[0], -24);
  EXPECT_EQ(facts->rows[1].probes[0].role, abi::PT_ROLE_RANGE_PUSH);
  const RowInputs& inputs = facts->rows[0].probes[0].inputs;
  EXPECT_EQ(inputs.kind, RowInputKind::kLastValues);
  ASSERT_EQ(inputs.words.size(), 2u);
  EXPECT_EQ(inputs.words[0].offsets[1], 16);
  EXPECT_EQ(inputs.words[1].base, abi::PT_PLACE_CONSTANT);
  EXPECT_EQ(inputs.words[1].address, 3u);
  ASSERT_EQ(facts->row_ends.size(), 1u);
  EXPECT_FALSE(facts->row_ends[0].place);
  struct stat status;
  ASSERT_EQ(stat(Entry().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  ASSERT_EQ(stat(directory_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST_F(PlanCacheTest, KeepsNodesInTheMiddleOfFunctions) {
  ModuleFacts facts = SomeFacts();
  RowProbe begin{0x70, abi::PT_ROLE_PLACED_NODE, 0, 0, abi::pt_place{}, {}, {}};
  begin.place->count = 1;
  begin.inputs = {RowInputKind::kTensors, {*begin.place}};
  facts.rows = {{"f", "", {begin}}};
  const PlanCache cache(directory_.string());
  cache.Store(*held_, "id", facts);
  const auto kept = cache.Load(*held_, "id");
  ASSERT_TRUE(kept);
  ASSERT_EQ(kept->rows.size(), 1u);
  EXPECT_EQ(kept->rows[0].probes[0].role, abi::PT_ROLE_PLACED_NODE);
  EXPECT_EQ(kept->rows[0].probes[0].inputs.kind, RowInputKind::kTensors);
}

TEST(CacheEntryTest, EveryDamagedByteIsNoticed) {
  const EntryFormat format{{'A', 'B'}, 3};
  const std::string good = SealEntry(format, "content");
  EXPECT_EQ(OpenEntry(format, good), "content");
  EXPECT_FALSE(OpenEntry({{'A', 'C'}, 3}, good));
  EXPECT_FALSE(OpenEntry({{'A', 'B'}, 4}, good));
  for (size_t i = 0; i < good.size(); ++i) {
    EXPECT_FALSE(OpenEntry(format, good.substr(0, i))) << i;
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x41);
    EXPECT_FALSE(OpenEntry(format, bad)) << i;
  }
}

// Their analyses differ, and what the numbers in an entry mean.
TEST_F(PlanCacheTest, TwoBuildsDoNotReadEachOthersEntries) {
  constexpr std::array<char, 8> kKind{'A'};
  const CacheFolder one(directory_.string(), kKind, "one build");
  const CacheFolder other(directory_.string(), kKind, "another build");
  one.Store("file", "of one");
  EXPECT_EQ(one.Load("file"), "of one");
  EXPECT_FALSE(other.Load("file"));
  other.Store("file", "of the other");
  EXPECT_EQ(other.Load("file"), "of the other");
  EXPECT_FALSE(one.Load("file"));
  EXPECT_FALSE(CacheFolder(directory_.string(), kKind, "").usable());
}

TEST_F(PlanCacheTest, ThisBuildIsToldByItsBuildId) {
  ASSERT_FALSE(file_->build_id().empty());
  EXPECT_TRUE(ProgramIdentity().starts_with(file_->build_id() + " ")) << ProgramIdentity();
  const CacheFolder folder(directory_.string(), {'P', 'T', 'P', 'L', 'A', 'N', 'C', '\n'},
                           "another build");
  PlanCache(directory_.string()).Store(*held_, "id", SomeFacts());
  EXPECT_TRUE(PlanCache(directory_.string()).Load(*held_, "id"));
  EXPECT_FALSE(folder.Load(FileIdentity(*held_, "id")));
}

// Threads, and processes with the same PID in namespaces of their own.
TEST_F(PlanCacheTest, WritersAtOnceLeaveOneWholeEntry) {
  const CacheFolder folder(directory_.string(), {'A'});
  const auto content = [](int i) { return std::string(size_t{1} << 20, static_cast<char>(i)); };
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i) {
    writers.emplace_back([&, i] {
      for (int n = 0; n < 20; ++n) folder.Store("file", content(i));
    });
  }
  folder.Store("file", content(4));
  int missing = 0;
  for (int n = 0; n < 100; ++n) missing += folder.Load("file").has_value() ? 0 : 1;
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(missing, 0);
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), fs::directory_iterator()), 1);
}

TEST_F(PlanCacheTest, ADamagedEntryIsReplaced) {
  const PlanCache cache(directory_.string());
  cache.Store(*held_, "id", SomeFacts());
  std::ofstream(Entry(), std::ios::binary) << "rubbish";
  EXPECT_FALSE(cache.Load(*held_, "id"));
  cache.Store(*held_, "id", SomeFacts());
  EXPECT_TRUE(cache.Load(*held_, "id"));
}

TEST_F(PlanCacheTest, FilesAndFoldersThatOthersCanWriteAreNotUsed) {
  {
    const PlanCache cache(directory_.string());
    cache.Store(*held_, "id", SomeFacts());
    ASSERT_EQ(chmod(Entry().c_str(), 0666), 0);
    EXPECT_FALSE(cache.Load(*held_, "id"));
  }
  ASSERT_EQ(chmod(directory_.c_str(), 0777), 0);
  EXPECT_FALSE(PlanCache(directory_.string()).usable());
  fs::create_directory_symlink(directory_, folder_ / "link");
  EXPECT_FALSE(PlanCache((folder_ / "link").string()).usable());
  EXPECT_FALSE(PlanCache("").usable());
}

TEST_F(PlanCacheTest, ALinkInPlaceOfAnEntryIsNotFollowed) {
  const PlanCache cache(directory_.string());
  cache.Store(*held_, "id", SomeFacts());
  const fs::path entry = Entry();
  fs::rename(entry, folder_ / "elsewhere");
  fs::create_symlink(folder_ / "elsewhere", entry);
  EXPECT_FALSE(cache.Load(*held_, "id"));
}

TEST(PlanEntryTest, OffsetsMustLieInTheFileAndAscend) {
  const auto decode = [](const ModuleFacts& facts) {
    return DecodeFacts(EncodeFacts("id", facts), "id", /*file_bytes=*/0x100).has_value();
  };
  EXPECT_TRUE(decode(SomeFacts()));
  EXPECT_FALSE(DecodeFacts(EncodeFacts("id", SomeFacts()), "other", 0x100));
  ModuleFacts facts = SomeFacts();
  facts.functions[0].begin = 0x100;
  EXPECT_FALSE(decode(facts));
  facts = SomeFacts();
  facts.functions[0].ends = {0x60, 0x50};
  EXPECT_FALSE(decode(facts));
  facts.functions[0].ends = {0x50, 0x100};
  EXPECT_FALSE(decode(facts));
  facts.functions[0].ends = {0x40};
  EXPECT_FALSE(decode(facts));
  facts.functions[0].ends = {};
  EXPECT_FALSE(decode(facts));
}

TEST(PlanEntryTest, SurvivesEveryCutAndFlip) {
  const std::string good = EncodeFacts("id", SomeFacts());
  for (size_t i = 0; i < good.size(); ++i) {
    EXPECT_FALSE(DecodeFacts(good.substr(0, i), "id", 0x100)) << i;
    for (const int flip : {1, 0x80, 0xff}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      DecodeFacts(bad, "id", 0x100);
    }
  }
}

TEST_F(PlanCacheTest, TheOldestEntriesGoWhereThereAreTooMany) {
  constexpr std::array<char, 8> kKind = {'T', 'E', 'S', 'T'};
  const std::string content(1000, 'x');
  const CacheFolder folder(directory_.string(), kKind, "builder", /*most_bytes=*/3500);
  ASSERT_TRUE(folder.usable());
  const auto age_all = [&](int hours) {
    for (const auto& entry : fs::directory_iterator(directory_)) {
      fs::last_write_time(entry, fs::last_write_time(entry) - std::chrono::hours(hours));
    }
  };
  for (const char* name : {"a", "b", "c"}) {
    age_all(1);
    folder.Store(name, content);
  }
  EXPECT_TRUE(folder.Load("a") && folder.Load("b") && folder.Load("c"));
  std::ofstream(directory_ / "other") << std::string(5000, 'y');
  age_all(1);
  folder.Store("d", content);
  EXPECT_FALSE(folder.Load("a"));
  EXPECT_TRUE(folder.Load("b") && folder.Load("c") && folder.Load("d"));
  EXPECT_TRUE(fs::exists(directory_ / "other")) << "it is none of ours";
  // One that is too large by itself is kept: it was just asked for.
  age_all(1);
  folder.Store("e", std::string(5000, 'x'));
  EXPECT_TRUE(folder.Load("e"));
  EXPECT_FALSE(folder.Load("d"));
}

const std::vector<PatchPoint> kPoints = {
    {0x1020, {1, true, MemoryPlace{4, -8, 8}, false}}, {0x1040, {}}, {0x1060, {}}};

std::vector<PointPatch> SomePatches() {
  PatchWindow window;
  window.address = 0x101a;
  window.size = 6;
  window.recorder = 0x1020;
  window.stack_change = -16;
  window.changed = 5;
  window.dead = 0x0ff0;
  window.loses_reads = true;
  window.flags_are_live = false;
  window.has_call = true;
  std::vector<PointPatch> patches = {
      {0x1020, window, ""}, {0x1040, std::nullopt, "no room"}, {0x1060, PatchWindow(), ""}};
  patches[2].window->address = patches[2].window->recorder = 0x1060;
  patches[2].window->size = 5;
  return patches;
}

TEST_F(PlanCacheTest, WindowsAreKeptForTheirPointsAlone) {
  const WindowCache cache(directory_.string());
  ModulePlan module;
  module.held = held_;
  module.build_id = file_->build_id();
  cache.Store(module, kPoints, SomePatches());
  const auto patches = cache.Load(module, kPoints);
  ASSERT_TRUE(patches);
  ASSERT_EQ(patches->size(), 3u);
  EXPECT_EQ(EncodeWindows("", *patches), EncodeWindows("", SomePatches()));
  const PatchWindow& window = *(*patches)[0].window;
  EXPECT_EQ(window.recorder, 0x1020u);
  EXPECT_EQ(window.stack_change, -16);
  EXPECT_TRUE(window.loses_reads && window.has_call);
  EXPECT_FALSE(window.flags_are_live || window.memory_changed);
  EXPECT_EQ((*patches)[1].reason, "no room");
  std::vector<PatchPoint> others = kPoints;
  others[1].reads.registers = 2;
  EXPECT_FALSE(cache.Load(module, others));
  EXPECT_FALSE(cache.Load(module, {}));
}

TEST(WindowEntryTest, SurvivesEveryCutAndFlip) {
  const std::string good = EncodeWindows("id", SomePatches());
  EXPECT_FALSE(DecodeWindows(good, "other", kPoints));
  for (size_t i = 0; i < good.size(); ++i) {
    EXPECT_FALSE(DecodeWindows(good.substr(0, i), "id", kPoints)) << i;
    for (const int flip : {1, 0x80, 0xff}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      const auto patches = DecodeWindows(bad, "id", kPoints);
      for (const PointPatch& patch : patches.value_or(std::vector<PointPatch>())) {
        if (!patch.window) continue;
        EXPECT_GE(patch.window->size, kWindowBytes);
        EXPECT_LE(patch.window->recorder, patch.window->end());
      }
    }
  }
}

}  // namespace
}  // namespace proftrace
