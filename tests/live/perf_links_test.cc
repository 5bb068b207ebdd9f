// The ways of attaching on kernels before 6.6, forced: one event of the kernel's tracing a file, or
// one perf event and one link a probe.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "symbols/process/process_maps.h"
#include "userspace/base/exit_status.h"
#include "userspace/capture/kernel/bpf_programs.h"
#include "userspace/capture/kernel/probe_cost.h"
#include "userspace/capture/kernel/trace_event.h"

namespace proftrace {
namespace {

class OldLinksTest : public testing::TestWithParam<UprobeApi> {};

TEST_P(OldLinksTest, AreUsedAndMeasured) {
  BpfOptions options;
  options.first_api = GetParam();
  const auto programs = BpfPrograms::Load(options);
  ASSERT_TRUE(programs.ok()) << programs.status();
  EXPECT_EQ((*programs)->api(), GetParam());
  EXPECT_GT((*programs)->ns_per_hit(), 50) << "a trap that costs nothing is none";
}

TEST_P(OldLinksTest, EveryHitIsOneRecordWithItsSite) {
  BpfOptions options;
  options.first_api = GetParam();
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

TEST_P(OldLinksTest, NothingIsRecordedAfterTheStop) {
  BpfOptions options;
  options.first_api = GetParam();
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

// A definition that stays would be the whole machine's.
TEST(TraceEventTest, IsThereWhileItIsNeededAndGoesWithWhoIsGone) {
  const auto definitions = [] {
    return ReadSmallFile("/sys/kernel/tracing/uprobe_events", size_t{1} << 20);
  };
  ASSERT_TRUE(CanMakeTraceEvents());
  const std::vector<ProbePoint> points = {{64, 0}, {65, 0}};
  const UniqueFd file(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  {
    const auto event = TraceEvent::Make(file.get(), points);
    ASSERT_NE(event, nullptr) << ErrnoText(errno);
    const std::string mine = "proftrace/pid_" + std::to_string(getpid()) + "_";
    EXPECT_THAT(definitions(), testing::HasSubstr(mine));
  }
  EXPECT_THAT(definitions(), testing::Not(testing::HasSubstr("proftrace/pid_")));
  const pid_t child = fork();
  if (child == 0) {
    const auto event = TraceEvent::Make(file.get(), points);
    _exit(event == nullptr ? 1 : 0);  // without its destructor
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(definitions(), testing::HasSubstr(std::to_string(child)));
  EXPECT_TRUE(CanMakeTraceEvents());
  EXPECT_THAT(definitions(), testing::Not(testing::HasSubstr("proftrace/pid_")));
}

INSTANTIATE_TEST_SUITE_P(Apis, OldLinksTest, testing::Values(UprobeApi::kTrace, UprobeApi::kPerf));

}  // namespace
}  // namespace proftrace
