#include "userspace/patch/whole_sites.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "bpf/abi/records.h"
#include "symbols/process/process_maps.h"
#include "symbols/x86/instruction.h"
#include "userspace/inject/writable_memory.h"
#include "userspace/patch/patched_code.h"

namespace proftrace {
namespace {

ProbePoint Point(uint64_t site) { return {0, site, 0, 0}; }

TEST(WholeSitesTest, ASiteThatLacksAPlaceHasNoJumpAtAll) {
  ProbePlan plan;
  plan.modules.resize(2);
  plan.modules[0].points = {Point(1), Point(1), Point(2), Point(0), Point(0)};
  plan.modules[1].points = {Point(1), Point(3)};
  PlanSpots spots;
  for (const auto& [module, point] :
       {std::pair<size_t, size_t>{0, 0}, {0, 1}, {0, 2}, {0, 3}, {1, 1}}) {
    spots.spots.emplace_back();
    spots.spots.back().module = module;
    spots.spots.back().point = point;
  }
  spots.unpatched = {{1, 0, "no window"}, {0, 4, "no window"}};
  KeepWholeSites(plan, &spots);
  ASSERT_EQ(spots.spots.size(), 3u);
  // Points without a site stand for themselves, also where another of them has no window.
  EXPECT_EQ(spots.spots[0].group, 2u);
  EXPECT_EQ(spots.spots[1].group, 0u);
  EXPECT_EQ(spots.spots[2].group, 3u);
  ASSERT_EQ(spots.unpatched.size(), 4u);
  EXPECT_EQ(spots.unpatched[2].point, 0u);
  EXPECT_EQ(spots.unpatched[3].point, 1u);
}

ProbePoint Point(uint64_t site, uint64_t role) { return {0, role << 16 | site, 0, 0}; }

// Two rows that end at one place of no site, and a range.
ProbePlan PlanOfGuards() {
  ProbePlan plan;
  plan.modules.resize(1);
  plan.modules[0].points = {Point(1, abi::PT_ROLE_GUARD_BEGIN), Point(2, abi::PT_ROLE_GUARD_BEGIN),
                            Point(0, abi::PT_ROLE_GUARD_END), Point(3, abi::PT_ROLE_RANGE_PUSH),
                            Point(4, abi::PT_ROLE_RANGE_POP)};
  return plan;
}

PlanSpots SpotsWithout(const ProbePlan& plan, size_t missing) {
  PlanSpots spots;
  for (size_t i = 0; i < plan.modules[0].points.size(); ++i) {
    if (i == missing) {
      spots.unpatched.push_back({0, i, "no window"});
    } else {
      spots.spots.emplace_back();
      spots.spots.back().point = i;
    }
  }
  return spots;
}

std::vector<size_t> PointsOf(const PlanSpots& spots) {
  std::vector<size_t> points;
  for (const PatchSpot& spot : spots.spots) points.push_back(spot.point);
  return points;
}

TEST(WholeSitesTest, WithoutAnEndThatRowsShareNoneOfThemHasAJump) {
  const ProbePlan plan = PlanOfGuards();
  PlanSpots spots = SpotsWithout(plan, 2);
  KeepWholeSites(plan, &spots);
  EXPECT_EQ(PointsOf(spots), (std::vector<size_t>{3, 4}));
  spots = SpotsWithout(plan, 4);
  KeepWholeSites(plan, &spots);
  EXPECT_EQ(PointsOf(spots), (std::vector<size_t>{0, 1, 2}));
}

TEST(WholeSitesTest, ABeginThatIsMissingKeepsNoOtherRowsAway) {
  const ProbePlan plan = PlanOfGuards();
  PlanSpots spots = SpotsWithout(plan, 0);
  KeepWholeSites(plan, &spots);
  EXPECT_EQ(PointsOf(spots), (std::vector<size_t>{1, 2, 3, 4}));
  // Should the end be lost later, the begin goes too.
  EXPECT_EQ(spots.spots[0].group, spots.spots[1].group);
  EXPECT_NE(spots.spots[1].group, spots.spots[2].group);
  EXPECT_EQ(spots.spots[2].group, spots.spots[3].group);
}

// push %rbx; mov %rdi, %rbx; lea (%rsi,%rbx,2), %rax; pop %rbx; ret
constexpr uint8_t kFunction[] = {0x53, 0x48, 0x89, 0xfb, 0x48, 0x8d, 0x04, 0x5e, 0x5b, 0xc3};
constexpr size_t kDistance = 64;
constexpr size_t kPageBytes = 4096;

// Three functions in this process, of which two belong together.
class GroupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    code_ = static_cast<uint8_t*>(
        mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (size_t i = 0; i < 3; ++i) {
      std::memcpy(code_ + i * kDistance, kFunction, sizeof(kFunction));
    }
  }
  void TearDown() override {
    munmap(code_, kPageBytes);
    if (region_ != nullptr) munmap(region_, region_bytes_);
  }

  // The spots that have a jump in the end.
  std::vector<size_t> Patch() {
    const Pid self{static_cast<uint32_t>(getpid())};
    const absl::StatusOr<WritableMemory> memory = WritableMemory::Open(self);
    const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(self);
    EXPECT_TRUE(memory.ok() && mappings.ok());
    std::vector<PatchSpot> spots(3);
    for (size_t i = 0; i < spots.size(); ++i) {
      spots[i].bias = reinterpret_cast<uint64_t>(code_);
      spots[i].window.address = i * kDistance + 1;
      spots[i].window.recorder = spots[i].window.address;
      spots[i].window.size = 7;
      spots[i].original.assign(kFunction + 1, kFunction + 8);
      spots[i].group = i < 2 ? 7 : 0;
    }
    PatchedCode code(self, *memory);
    code.PlaceRegions(std::move(spots), *mappings);
    EXPECT_EQ(code.regions().size(), 1u);
    const AddressRange& range = code.regions()[0].range;
    region_bytes_ = range.bytes;
    region_ = mmap(reinterpret_cast<void*>(range.address), range.bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    EXPECT_NE(region_, MAP_FAILED);
    EXPECT_TRUE(code.WriteTrampolines().ok());
    code.WriteJumps();
    return code.WrittenSpots();
  }

  uint8_t* code_ = nullptr;
  void* region_ = nullptr;
  size_t region_bytes_ = 0;
};

TEST_F(GroupTest, WhereNobodyElseIsAllHaveJumps) {
  EXPECT_EQ(Patch(), (std::vector<size_t>{0, 1, 2}));
}

TEST_F(GroupTest, OneThatSomebodyHasChangedKeepsTheOthersOfItsGroupFromJumps) {
  code_[kDistance + 4] = 0xcc;
  EXPECT_EQ(Patch(), (std::vector<size_t>{2}));
  EXPECT_EQ(code_[1], kFunction[1]);
}

abi::pt_place TypeName(uint8_t base, std::vector<int32_t> offsets) {
  abi::pt_place place{};
  place.base = base;
  place.count = static_cast<uint8_t>(offsets.size());
  std::copy(offsets.begin(), offsets.end(), place.offsets);
  place.form = abi::PT_PLACE_C_STRING;
  return place;
}

// Returns a plan of `module`, with one row that begins at each place.
ProbePlan PlanOf(const std::string& module, const std::vector<abi::pt_place>& places) {
  ProbePlan plan;
  plan.places = places;
  plan.modules.resize(1);
  plan.modules[0].name = module;
  for (uint16_t i = 0; i < places.size(); ++i) {
    ProbePoint point{i, 1, static_cast<uint16_t>(i + 1), 0};
    SetRole(abi::PT_ROLE_GUARD_BEGIN, &point);
    plan.modules[0].points.push_back(point);
  }
  return plan;
}

TEST(PlacesWithoutBpfTest, NamesOfPythonTypesAreLeftToTheLoader) {
  const auto places = PlacesWithoutBpf(
      PlanOf("libtorch_python.so",
             {TypeName(kRbp, {24, 0}), TypeName(kRbp, {-704, 24, 0}), TypeName(kRbp, {704, 24, 0}),
              TypeName(kRdi, {-8, 24, 0}), TypeName(kRdi, {32, 0}), TypeName(kRdi, {24, 8})}));
  ASSERT_EQ(places.size(), 6u);
  EXPECT_EQ(places[0].form, abi::PT_PLACE_PYTHON_TYPE);
  EXPECT_EQ(places[0].count, 1);
  EXPECT_EQ(places[0].offsets[0], 0);
  EXPECT_EQ(places[1].form, abi::PT_PLACE_PYTHON_TYPE);  // a slot of the frame
  EXPECT_EQ(places[1].count, 2);
  EXPECT_EQ(places[1].offsets[0], -704);
  EXPECT_EQ(places[1].offsets[1], 0);
  for (size_t i = 2; i < places.size(); ++i) {
    EXPECT_EQ(places[i].form, abi::PT_PLACE_C_STRING) << i;
  }
}

TEST(PlacesWithoutBpfTest, OtherLibrariesHaveOtherObjects) {
  const auto places = PlacesWithoutBpf(PlanOf("libtorch_cpu.so", {TypeName(kRbp, {24, 0})}));
  EXPECT_EQ(places[0].form, abi::PT_PLACE_C_STRING);
}

}  // namespace
}  // namespace proftrace
