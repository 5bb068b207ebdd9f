// The way of attaching on kernels before 6.6, forced: one perf event and one link a probe.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "userspace/base/exit_status.h"
#include "userspace/capture/bpf_programs.h"
#include "userspace/capture/probe_cost.h"

namespace proftrace {
namespace {

TEST(PerfLinksTest, ForcedLinksAreUsedAndMeasured) {
  BpfOptions options;
  options.force_perf_links = true;
  const auto programs = BpfPrograms::Load(options);
  ASSERT_TRUE(programs.ok()) << programs.status();
  EXPECT_EQ((*programs)->api(), UprobeApi::kPerf);
  EXPECT_GT((*programs)->ns_per_hit(), 50) << "a trap that costs nothing is none";
}

TEST(PerfLinksTest, EveryHitIsOneRecordWithItsSite) {
  BpfOptions options;
  options.force_perf_links = true;
  options.ring_bytes = 8u << 20;
  absl::StatusOr<std::unique_ptr<BpfPrograms>> loaded = BpfPrograms::Load(options);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  BpfPrograms& programs = **loaded;
  uint64_t records = 0;
  int rounds_attached = 0;
  bool attached = false;
  constexpr int kCalls = 500;
  const auto cost = MeasureProbeCost(
      kCalls,
      [&](ModulePlan module) -> absl::StatusOr<LinkSet> {
        attached = true;
        module.points[0].cookie = PT_COOKIE(42, abi::PT_ROLE_BEGIN, 0, 0);
        AttachReport report;
        absl::StatusOr<LinkSet> links =
            programs.Attach(module, Pid{static_cast<uint32_t>(getpid())}, &report);
        EXPECT_EQ(report.points, 1u);
        return links;
      },
      [&] {
        rounds_attached += attached ? 1 : 0;
        const auto taken = programs.Poll(0, [&](std::span<const std::byte> record) {
          abi::pt_record head;
          ASSERT_EQ(record.size(), sizeof(head));
          std::memcpy(&head, record.data(), sizeof(head));
          EXPECT_EQ(head.site, 42);
          EXPECT_EQ(head.kind, abi::PT_SPAN_BEGIN);
          EXPECT_EQ(head.pid, static_cast<uint32_t>(getpid()));
          ++records;
        });
        ASSERT_TRUE(taken.ok());
      });
  ASSERT_TRUE(cost.ok()) << cost.status();
  EXPECT_EQ(records, static_cast<uint64_t>(rounds_attached) * kCalls);
  EXPECT_EQ(programs.ReadCounters().ring_lost, 0u);
}

TEST(PerfLinksTest, NothingIsRecordedAfterTheStop) {
  BpfOptions options;
  options.force_perf_links = true;
  absl::StatusOr<std::unique_ptr<BpfPrograms>> loaded = BpfPrograms::Load(options);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  BpfPrograms& programs = **loaded;
  programs.StopRecording();
  uint64_t records = 0;
  const auto cost = MeasureProbeCost(
      100,
      [&](const ModulePlan& module) {
        AttachReport report;
        return programs.Attach(module, Pid{static_cast<uint32_t>(getpid())}, &report);
      },
      [&] { (void)programs.Poll(0, [&](std::span<const std::byte>) { ++records; }); });
  ASSERT_TRUE(cost.ok()) << cost.status();
  EXPECT_EQ(records, 0u);
}

}  // namespace
}  // namespace proftrace
