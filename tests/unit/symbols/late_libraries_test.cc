#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <unistd.h>

#include <cstddef>

#include "symbols/elf/link_map.h"
#include "symbols/plan/plan_extension.h"
#include "tests/unit/symbols/fake_memory.h"

namespace proftrace {
namespace {

constexpr uint64_t kDebug = 0x1000;

// A list of loaded libraries at 0x2000, 0x3000, ...
void PutEntry(FakeMemory* memory, uint64_t entry, uint64_t next) {
  memory->PutWord(entry + offsetof(link_map, l_next), next);
}

TEST(LinkMapTest, TheLastOneGetsASuccessorWhenALibraryIsLoaded) {
  FakeMemory memory;
  memory.PutWord(kDebug + offsetof(r_debug, r_map), 0x2000);
  PutEntry(&memory, 0x2000, 0x3000);
  PutEntry(&memory, 0x3000, 0);
  EXPECT_EQ(LastLoaded(memory, kDebug), 0x3000u);
  EXPECT_FALSE(HasSuccessor(memory, 0x3000));
  PutEntry(&memory, 0x3000, 0x4000);
  EXPECT_TRUE(HasSuccessor(memory, 0x3000));
  EXPECT_EQ(LastLoaded(memory, kDebug), 0u) << "the new one cannot be read yet";
  PutEntry(&memory, 0x4000, 0);
  EXPECT_EQ(LastLoaded(memory, kDebug), 0x4000u);
}

TEST(LinkMapTest, HostileListsEnd) {
  FakeMemory memory;
  EXPECT_EQ(LastLoaded(memory, kDebug), 0u);
  EXPECT_TRUE(HasSuccessor(memory, 0x2000)) << "gone: to be looked for again";
  memory.PutWord(kDebug + offsetof(r_debug, r_map), 0x2000);
  PutEntry(&memory, 0x2000, 0x3000);
  PutEntry(&memory, 0x3000, 0x2000);
  EXPECT_EQ(LastLoaded(memory, kDebug), 0u);
}

TEST(LinkMapTest, NamespacesAreAListOfTheirOwn) {
  FakeMemory memory;
  memory.PutWord(kDebug, 1);  // r_version
  memory.PutWord(kDebug + sizeof(r_debug), 0x5000);
  EXPECT_EQ(NextNamespace(memory, kDebug), 0u) << "this version has no such field";
  memory.PutWord(kDebug, 2);
  EXPECT_EQ(NextNamespace(memory, kDebug), 0x5000u);
  EXPECT_EQ(NextNamespace(memory, 0x7000), 0u) << "not readable";
}

TEST(LinkMapTest, OurOwnProcessHasAsManyNamespacesAsItMakes) {
  const Pid self{static_cast<uint32_t>(getpid())};
  const ProcessMemory memory(self);
  const uint64_t debug = FindLinkerDebug(self, memory);
  ASSERT_NE(debug, 0u);
  EXPECT_EQ(NextNamespace(memory, debug), 0u);
  void* const library = dlmopen(LM_ID_NEWLM, "libanl.so.1", RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  const uint64_t next = NextNamespace(memory, debug);
  ASSERT_NE(next, 0u) << "glibc before 2.35?";
  EXPECT_NE(LastLoaded(memory, next), 0u);
  dlclose(library);
}

TEST(LinkMapTest, OurOwnProcessLoadsALibrary) {
  const Pid self{static_cast<uint32_t>(getpid())};
  const ProcessMemory memory(self);
  const uint64_t debug = FindLinkerDebug(self, memory);
  ASSERT_NE(debug, 0u);
  const uint64_t last = LastLoaded(memory, debug);
  ASSERT_NE(last, 0u);
  EXPECT_FALSE(HasSuccessor(memory, last));
  void* const library = dlopen("libanl.so.1", RTLD_NOW);  // of the C library; nothing links it
  ASSERT_NE(library, nullptr) << dlerror();
  EXPECT_TRUE(HasSuccessor(memory, last));
  EXPECT_NE(LastLoaded(memory, debug), last);
  dlclose(library);
}

SiteInfo Site(const char* name) {
  SiteInfo site;
  site.label.name = name;
  return site;
}

ModulePlan Module(uint64_t inode, std::vector<ProbePoint> points) {
  ModulePlan module;
  module.file = {8, inode};
  module.points = std::move(points);
  return module;
}

uint64_t Cookie(uint64_t site) { return PT_COOKIE(site, 7, 3, 11); }

TEST(PlanExtensionTest, NewModulesAreNumberedBehindThePlan) {
  ProbePlan plan;
  plan.sites = {Site(""), Site("first"), Site("another process' library")};
  plan.modules = {Module(10, {{5, Cookie(1), 0}})};
  ProbePlan now;
  // The new library lies before the known one.
  now.sites = {Site(""), Site("new a"), Site("new b"), Site("first")};
  now.places.resize(2);
  now.places[1].address = 99;
  now.modules = {
      Module(1, {{1, Cookie(2), 2}, {2, Cookie(1), 0}, {3, Cookie(2), 0}, {4, Cookie(0), 0}}),
      Module(10, {{5, Cookie(3), 1}})};
  const auto extension = ExtensionOf(plan, now);
  ASSERT_TRUE(extension.has_value());
  ASSERT_EQ(extension->modules.size(), 1u);
  const std::vector<ProbePoint>& points = extension->modules[0].points;
  ASSERT_EQ(extension->sites.size(), 2u);
  EXPECT_EQ(extension->sites[0].label.name, "new b");
  EXPECT_EQ(extension->sites[1].label.name, "new a");
  EXPECT_EQ(points[0].cookie, Cookie(3));
  EXPECT_EQ(points[1].cookie, Cookie(4));
  EXPECT_EQ(points[2].cookie, Cookie(3));
  EXPECT_EQ(points[3].cookie, Cookie(0)) << "no row of its own";
  ASSERT_EQ(extension->places.size(), 1u);
  EXPECT_EQ(extension->places[0].address, 99u);
  EXPECT_EQ(points[0].place, 1);
}

TEST(PlanExtensionTest, AddedPointsCountThePlansPlacesAndSignatures) {
  ProbePlan plan;
  plan.sites = {Site(""), Site("first")};
  plan.modules = {Module(10, {{5, Cookie(1), 1}})};
  plan.places.resize(3);
  plan.signatures.resize(2);
  ProbePlan now = plan;
  now.sites.push_back(Site("new"));
  now.places.resize(5);
  now.places[4].address = 99;
  now.places[4].otherwise = 4;
  now.signatures.resize(4);
  now.signatures[3].count = 7;
  now.modules.push_back(Module(30, {{5, Cookie(2), 5}, {6, Cookie(2), 0}}));
  now.modules[1].points[1].signature = 4;
  const auto extension = ExtensionOf(plan, now);
  ASSERT_TRUE(extension.has_value());
  AddExtension(*extension, now, &plan);
  ASSERT_EQ(plan.modules.size(), 2u);
  const std::vector<ProbePoint>& points = plan.modules[1].points;
  ASSERT_EQ(points[0].place, 5);
  ASSERT_EQ(plan.places.size(), 5u);
  EXPECT_EQ(plan.places[4].address, 99u);
  EXPECT_EQ(plan.places[4].otherwise, 4);
  ASSERT_EQ(points[1].signature, 3);
  ASSERT_EQ(plan.signatures.size(), 3u);
  EXPECT_EQ(plan.signatures[2].count, 7);
  EXPECT_EQ(plan.sites.size(), 3u);
}

TEST(PlanExtensionTest, NothingNewIsNoExtension) {
  ProbePlan plan;
  plan.sites = {Site(""), Site("first")};
  plan.modules = {Module(10, {{5, Cookie(1), 0}})};
  EXPECT_FALSE(ExtensionOf(plan, plan).has_value());
  ProbePlan now = plan;
  now.modules.push_back(Module(30, {{5, Cookie(1), 0}}));
  EXPECT_TRUE(ExtensionOf(plan, now).has_value());
  plan.sites.resize(kMaxSites);
  EXPECT_FALSE(ExtensionOf(plan, now).has_value()) << "no numbers left";
}

TEST(PlanExtensionTest, AFileThatIsLoadedAgainIsKnown) {
  ProbePlan plan;
  plan.sites = {Site(""), Site("first")};
  plan.modules = {Module(30, {{5, Cookie(1), 0}})};
  plan.modules[0].mapped_path = "/proc/1/map_files/30-40";
  ProbePlan now = plan;
  now.modules[0].mapped_path = "/proc/1/map_files/10-20";
  EXPECT_FALSE(ExtensionOf(plan, now).has_value()) << "its probes fire in both places";
  now.modules[0].file = {8, 100};
  EXPECT_TRUE(ExtensionOf(plan, now).has_value());
}

TEST(PlanExtensionTest, MemoryProbesKeepTheirOneSite) {
  ProbePlan plan;
  plan.sites = {Site(""), Site("memory")};
  plan.memory_site = 1;
  ProbePlan now;
  now.sites = {Site(""), Site("x"), Site("memory")};
  now.memory_site = 2;
  now.modules = {Module(30, {{5, Cookie(2), 0}})};
  const auto extension = ExtensionOf(plan, now);
  ASSERT_TRUE(extension.has_value());
  EXPECT_EQ(extension->modules[0].points[0].cookie, Cookie(1));
  EXPECT_TRUE(extension->sites.empty());
}

}  // namespace
}  // namespace proftrace
