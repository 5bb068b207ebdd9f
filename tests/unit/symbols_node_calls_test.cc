// Autograd nodes whose row begins in the middle of a function.
#include <absl/container/flat_hash_set.h>
#include <gtest/gtest.h>

#include <vector>

#include "symbols/row_plan.h"

namespace proftrace {
namespace {

constexpr int kR12 = 12;

TEST(RowPlannerTest, APlacedNodeHasTheOffsetsOfItsVersion) {
  ModuleFacts facts;
  RowProbe begin{0x70, abi::PT_ROLE_PLACED_NODE, 0, 0, abi::pt_place{}, {}, {}};
  begin.place->base = kR12;
  begin.place->count = 1;
  facts.rows.push_back({"f", "", {begin, {0x80, abi::PT_ROLE_END, 0, 0, {}, {}, {}}}});
  facts.row_ends.push_back({0x90, abi::PT_ROLE_CATCH, 0, 0, {}, {}, {}});
  ProbePlan plan;
  plan.sites.emplace_back();
  absl::flat_hash_set<uint64_t> taken;
  std::vector<ProbePoint> points;
  RowPlanner({.python_object = 472, .python_text = 0, .node = {24, 48}}, nullptr, &plan)
      .AddRows(facts, 0, &taken, &points);
  ASSERT_EQ(points.size(), 3u);
  EXPECT_EQ(RoleOf(points[0]), abi::PT_ROLE_PLACED_NODE);
  EXPECT_EQ(points[0].cookie >> 32, 472u);
  ASSERT_EQ(points[0].place, 1);
  EXPECT_EQ(plan.places[0].base, kR12);
  EXPECT_EQ(plan.places[0].address, uint64_t{24 / 8} << 48 | uint64_t{48 / 8} << 56);
  ASSERT_EQ(plan.sites.size(), 2u);
  EXPECT_EQ(plan.sites[1].label.kind, SpanKind::kAutograd);
  EXPECT_EQ(plan.sites[1].label.scope, Scope::kBackwardFunction);
  EXPECT_EQ(SiteOf(points[0]), SiteOf(points[1]));
  EXPECT_EQ(SiteOf(points[2]), 0);  // a catch ends whatever it passes
}

}  // namespace
}  // namespace proftrace
