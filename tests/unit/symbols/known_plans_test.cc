#include "symbols/plan/known_plans.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <random>
#include <string>

#include "symbols/plan/plan_cache.h"

namespace proftrace {
namespace {

constexpr char kBuildId[] = "00112233445566778899aabbccddeeff00112233";
constexpr uint64_t kBegin = 5000;
constexpr uint64_t kEnd = 9100;

std::string RandomCode(size_t bytes) {
  std::mt19937 random(7);
  std::string code(bytes, '\0');
  for (char& byte : code) byte = static_cast<char>(random());
  return code;
}

std::shared_ptr<const HeldFile> FileOf(const std::string& bytes) {
  UniqueFd fd(memfd_create("library", MFD_CLOEXEC));
  EXPECT_EQ(write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return HeldFile::Hold(std::move(fd));
}

ModuleFacts Facts() {
  ModuleFacts facts;
  ProbedFunction function;
  function.exit_rule = ExitRule::kReturn;
  function.begin = kBegin;
  function.ends = {kEnd};
  function.symbol = "_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE";
  facts.functions.push_back(function);
  MadeRow row;
  row.literal = "step";
  RowProbe probe;
  probe.offset = 20;
  row.probes.push_back(probe);
  facts.rows.push_back(row);
  facts.dispatcher_slot = 0x1234;
  return facts;
}

class KnownPlansTest : public testing::Test {
 protected:
  std::string code_ = RandomCode(20'000);
  std::shared_ptr<const HeldFile> file_ = FileOf(code_);
  std::string entry_ = MakeKnownPlan(*file_, kBuildId, Facts());
};

TEST_F(KnownPlansTest, TheFactsOfTheFileAreFound) {
  const auto facts = FindPlanIn(entry_, *file_, kBuildId);
  ASSERT_TRUE(facts.has_value());
  EXPECT_EQ(EncodeFacts("", *facts), EncodeFacts("", Facts()));
  // A copy of the file is as good.
  EXPECT_TRUE(FindPlanIn(entry_, *FileOf(code_), kBuildId).has_value());
}

TEST_F(KnownPlansTest, OneOfManyIsFound) {
  const auto other = FileOf(RandomCode(30'000));
  const std::string many =
      MakeKnownPlan(*other, "aa", Facts()) + entry_ + MakeKnownPlan(*other, "bb", Facts());
  EXPECT_TRUE(FindPlanIn(many, *file_, kBuildId).has_value());
  EXPECT_TRUE(FindPlanIn(many, *other, "bb").has_value());
  EXPECT_EQ(FindPlanIn(many, *other, kBuildId)->dispatcher_slot, 0u);
}

TEST_F(KnownPlansTest, AFileWithOtherCodeIsNotKnown) {
  for (const uint64_t place : {kBegin, kEnd, uint64_t{20}}) {
    for (const int64_t beside : {-8, 0, 5, 40}) {
      std::string changed = code_;
      ++changed[static_cast<size_t>(static_cast<int64_t>(place) + beside)];
      EXPECT_FALSE(FindPlanIn(entry_, *FileOf(changed), kBuildId).has_value()) << place << beside;
    }
  }
  EXPECT_FALSE(FindPlanIn(entry_, *FileOf(code_ + "x"), kBuildId).has_value());
}

// Wheels of one version for different Pythons have libraries of the same code with other build-ids.
TEST_F(KnownPlansTest, AnotherBuildOfTheSameCodeHasItsFactsButNoAddressesOfData) {
  const auto found = FindPlanIn(entry_, *file_, "00");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->dispatcher_slot, 0u);
  EXPECT_EQ(found->functions.size(), 1u);
  for (const auto member : {&ModuleFacts::python_node_vtable, &ModuleFacts::undefined_tensor}) {
    ModuleFacts facts = Facts();
    facts.*member = 0x1000;
    EXPECT_FALSE(FindPlanIn(MakeKnownPlan(*file_, kBuildId, facts), *file_, "00").has_value());
  }
  std::string changed = code_;
  ++changed[kBegin];
  EXPECT_FALSE(FindPlanIn(entry_, *FileOf(changed), "00").has_value());
}

TEST_F(KnownPlansTest, NothingToProbeIsKnownOfAFileAsAWhole) {
  const std::string entry = MakeKnownPlan(*file_, kBuildId, ModuleFacts());
  const auto facts = FindPlanIn(entry, *file_, kBuildId);
  ASSERT_TRUE(facts.has_value());
  EXPECT_TRUE(facts->functions.empty());
  for (const size_t place : {size_t{0}, code_.size() / 2, code_.size() - 80}) {
    std::string changed = code_;
    ++changed[place];
    EXPECT_FALSE(FindPlanIn(entry, *FileOf(changed), kBuildId).has_value()) << place;
  }
}

TEST_F(KnownPlansTest, DamageIsNoPlan) {
  for (size_t bytes = 0; bytes < entry_.size(); ++bytes) {
    EXPECT_FALSE(FindPlanIn(std::string_view(entry_).substr(0, bytes), *file_, kBuildId)) << bytes;
  }
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = entry_;
    for (int n = 0; n < 1 + i % 4; ++n) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    const auto facts = FindPlanIn(damaged, *file_, kBuildId);
    if (!facts.has_value()) continue;
    for (const ProbedFunction& function : facts->functions) {
      EXPECT_LT(function.begin, code_.size());
    }
  }
}

TEST_F(KnownPlansTest, PlacesBeyondTheFileAreNotRead) {
  ModuleFacts facts = Facts();
  facts.row_ends.emplace_back().offset = code_.size() + 5000;
  EXPECT_EQ(MakeKnownPlan(*file_, kBuildId, facts), "");
}

}  // namespace
}  // namespace proftrace
