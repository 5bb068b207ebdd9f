// What is said of the DataLoader's workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/system_events.h"
#include "tests/unit/why/why_fixture.h"

namespace proftrace {
namespace {

using testing::HasSubstr;
using testing::Not;

// The thread waits 6 ms a step for a batch, which PID 9 loads by calls of equal length.
class DataRulesTest : public WhyTest {
 protected:
  // `file_of(step, call)`: the file of one of the worker's `calls` calls in a step.
  template <typename FileOf>
  std::string EvidenceOfWorker(int calls, FileOf&& file_of) {
    maker_.info().system.sched = maker_.info().system.calls = true;
    const ThreadIndex worker = maker_.AddThread(9, 9, "pt_data_worker");
    const LabelId next =
        maker_.AddAnnotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__");
    MakeSteps([&](int step, int64_t from_ns, int64_t to_ns) {
      maker_.Begin(thread_, next, from_ns);
      SystemEvent wait = MakeOffCpu(thread_, WaitReason::kPoll, from_ns, to_ns, 0, "poll");
      wait.off_cpu.waker_pid = Pid{9};
      wait.off_cpu.waker_tid = Tid{9};
      maker_.AddSystemEvent(wait);
      for (int i = 0; i < calls; ++i) {
        const int64_t each_ns = (to_ns - from_ns) / calls;
        SystemEvent call =
            MakeCall(worker, "read", from_ns + i * each_ns, from_ns + (i + 1) * each_ns, 1000);
        call.file = file_of(step, i);
        maker_.AddSystemEvent(call);
      }
      maker_.End(thread_, to_ns);
    });
    const std::optional<Finding> finding = FindKind(Why(), FindingKind::kDataLoader);
    return finding.has_value() ? EvidenceOf(*finding) : "";
  }
};

TEST_F(DataRulesTest, ManyShortCallsOnOneFileAreOne) {
  const SystemFileId shard = maker_.AddSystemFile(SystemFileKind::kRegular, "/data/shard.bin");
  EXPECT_THAT(EvidenceOfWorker(8, [&](int, int) { return shard; }),
              HasSubstr("The calls that took longest were read of /data/shard.bin, 100 % of the "
                        "wait; 8.0 kB a batch were read in that time"));
}

TEST_F(DataRulesTest, ManyFilesAreToldByTheirFolder) {
  std::vector<SystemFileId> images;
  for (int i = 0; i < kSteps * 4; ++i) {
    images.push_back(maker_.AddSystemFile(SystemFileKind::kRegular,
                                          "/data/train/" + std::to_string(i) + ".jpg"));
  }
  EXPECT_THAT(EvidenceOfWorker(4, [&](int step, int call) { return images[step * 4 + call]; }),
              HasSubstr("The calls that took longest were read of 48 files in /data/train, 100 %"));
}

TEST_F(DataRulesTest, ManyConnectionsAreToldAsSockets) {
  std::vector<SystemFileId> sockets;
  for (int i = 0; i < kSteps; ++i) {
    sockets.push_back(
        maker_.AddSystemFile(SystemFileKind::kSocket, "tcp:10.0.0." + std::to_string(i) + ":80"));
  }
  EXPECT_THAT(EvidenceOfWorker(2, [&](int step, int) { return sockets[step]; }),
              HasSubstr("The calls that took longest were read of 12 sockets, 100 %"));
}

}  // namespace
}  // namespace proftrace
