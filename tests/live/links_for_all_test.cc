// The way of attaching on Linux 6.6 to 6.9, forced: links for all processes, whose programs tell
// them apart.
#include <bpf/bpf.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "bpf/abi/probe_cookie.h"
#include "userspace/base/unique_fd.h"
#include "userspace/capture/kernel/bpf_programs.h"
#include "userspace/capture/kernel/cookie_table.h"
#include "userspace/capture/kernel/probe_cost.h"

extern "C" void proftrace_probe_cost_target();

namespace proftrace {
namespace {

constexpr uint16_t kSite = 42;
constexpr int kHits = 300;

class LinksForAllTest : public testing::Test {
 protected:
  void SetUp() override {
    BpfOptions options;
    options.force_links_for_all = true;
    absl::StatusOr<std::unique_ptr<BpfPrograms>> loaded = BpfPrograms::Load(options);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    programs_ = *std::move(loaded);
    const auto where_is_it = [this](const ModulePlan& module) -> absl::StatusOr<LinkSet> {
      target_ = module;
      return LinkSet();
    };
    ASSERT_TRUE(MeasureProbeCost(1, where_is_it, [] {}).ok());
    target_.points[0].cookie = PT_COOKIE(kSite, abi::PT_ROLE_BEGIN, 0, 0);
  }

  LinkSet Attach(std::optional<Pid> pid) {
    AttachReport report;
    absl::StatusOr<LinkSet> links = programs_->Attach(target_, pid, &report);
    EXPECT_TRUE(links.ok()) << links.status();
    EXPECT_EQ(report.points, 1u);
    return links.ok() ? *std::move(links) : LinkSet();
  }

  static void Hit() {
    for (int i = 0; i < kHits; ++i) proftrace_probe_cost_target();
  }
  static pid_t HitInAChild() {
    const pid_t child = fork();
    if (child == 0) {
      Hit();
      _exit(0);
    }
    waitpid(child, nullptr, 0);
    return child;
  }

  // Records of each process.
  std::map<uint32_t, int> Taken() {
    std::map<uint32_t, int> taken;
    EXPECT_TRUE(programs_
                    ->Poll(0,
                           [&taken](std::span<const std::byte> record) {
                             abi::pt_record head;
                             std::memcpy(&head, record.data(), sizeof(head));
                             EXPECT_EQ(head.site, kSite);
                             ++taken[head.pid];
                           })
                    .ok());
    return taken;
  }

  const uint32_t self_ = static_cast<uint32_t>(getpid());
  std::unique_ptr<BpfPrograms> programs_;
  ModulePlan target_;  // the function, a plan of one point
};

TEST_F(LinksForAllTest, HitsOfAllThreadsOfTheProcessAndOfNoOther) {
  EXPECT_TRUE(programs_->are_links_for_all());
  EXPECT_GT(programs_->ns_per_hit(), 50) << "a trap that costs nothing is none";
  const LinkSet links = Attach(Pid{self_});
  Hit();
  std::thread(Hit).join();
  HitInAChild();
  EXPECT_EQ(Taken(), (std::map<uint32_t, int>{{self_, 2 * kHits}}));
}

TEST_F(LinksForAllTest, EachProcessHasItsOwnLink) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte = 0;
    if (read(ends[0], &byte, 1) == 1) Hit();
    _exit(0);
  }
  LinkSet mine = Attach(Pid{self_});
  const LinkSet others = Attach(Pid{static_cast<uint32_t>(child)});
  Hit();
  mine.clear();
  Hit();  // nobody's by now
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(Taken(), (std::map<uint32_t, int>{{self_, kHits}, {child, kHits}}));
}

TEST_F(LinksForAllTest, WithoutAProcessAllAreRecorded) {
  const LinkSet links = Attach(std::nullopt);
  Hit();
  const auto child = static_cast<uint32_t>(HitInAChild());
  EXPECT_EQ(Taken(), (std::map<uint32_t, int>{{self_, kHits}, {child, kHits}}));
}

TEST(CookieTableTest, RoomIsUsedAgain) {
  constexpr uint32_t kEntries = 10;
  // libbpf's own function for it has another name before 0.7.
  bpf_attr attributes{};
  attributes.map_type = BPF_MAP_TYPE_ARRAY;
  attributes.key_size = sizeof(uint32_t);
  attributes.value_size = sizeof(abi::pt_probe_cookie);
  attributes.max_entries = kEntries;
  const UniqueFd map(
      static_cast<int>(syscall(SYS_bpf, BPF_MAP_CREATE, &attributes, sizeof(attributes))));
  ASSERT_GE(map.get(), 0);
  const std::shared_ptr<CookieTable> table = CookieTable::Make(map.get(), kEntries);
  using Cookies = std::vector<uint64_t>;
  Cookies a = {11, 12, 13, 14}, b = {21, 22, 23}, c = {31, 32, 33};
  auto first = table->Put(&a, Pid{7});
  auto second = table->Put(&b, Pid{8});
  auto third = table->Put(&c, std::nullopt);
  ASSERT_TRUE(first && second && third);
  EXPECT_EQ(a, (Cookies{0, 1, 2, 3}));
  EXPECT_EQ(b, (Cookies{4, 5, 6}));
  const uint32_t index = 5;
  abi::pt_probe_cookie entry{};
  ASSERT_EQ(bpf_map_lookup_elem(map.get(), &index, &entry), 0);
  EXPECT_EQ(entry.cookie, 22u);
  EXPECT_EQ(entry.tgid, 8u);

  Cookies more = {41};
  EXPECT_EQ(table->Put(&more, Pid{9}), nullptr) << "it is full";
  second.reset();
  first.reset();
  Cookies seven = {1, 2, 3, 4, 5, 6, 7};
  EXPECT_NE(table->Put(&seven, Pid{9}), nullptr) << "both rooms are one";
  EXPECT_EQ(seven.front(), 0u);
  third.reset();
  Cookies all(kEntries, 5);
  EXPECT_NE(table->Put(&all, Pid{9}), nullptr);
}

}  // namespace
}  // namespace proftrace
