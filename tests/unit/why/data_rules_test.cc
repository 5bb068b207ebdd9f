// Sentences about the DataLoader and its workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/system_events.h"
#include "tests/unit/why/why_fixture.h"
#include "userspace/aggregate/data_waits.h"

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
            MakeCall(worker_, "read", from_ns + i * each_ns, from_ns + (i + 1) * each_ns, 1000);
        call.file = file_of(step, i);
        maker_.AddSystemEvent(call);
      }
      maker_.End(thread_, to_ns);
    });
    const std::optional<Finding> finding = FindKind(Why(), FindingKind::kDataLoader);
    return finding.has_value() ? EvidenceOf(*finding) : "";
  }

  ThreadIndex worker_ = maker_.AddThread(9, 9, "pt_data_worker");
};

// Workers that each wait for orders for `idle` of ten parts of the time.
class WorkerLoadsTest : public DataRulesTest {
 protected:
  std::string EvidenceOf(int of_the_slow, const std::vector<int>& of_others) {
    AddIdle(worker_, of_the_slow);
    for (size_t i = 0; i < of_others.size(); ++i) {
      const uint32_t pid = 20 + static_cast<uint32_t>(i);
      AddIdle(maker_.AddThread(pid, pid, "pt_data_worker"), of_others[i]);
    }
    return EvidenceOfWorker(1, [](int, int) { return kNoSystemFile; });
  }

 private:
  void AddIdle(ThreadIndex worker, int parts) {
    for (int step = 0; step < kSteps; ++step) {
      const int64_t at_ns = BeginOf(step);
      maker_.AddSystemEvent(
          MakeOffCpu(worker, WaitReason::kPoll, at_ns, at_ns + parts * kMs, 0, "poll"));
    }
  }
};

TEST_F(WorkerLoadsTest, WorkersThatAllWorkAreTooFew) {
  EXPECT_THAT(EvidenceOf(0, {1, 1}),
              HasSubstr("All 3 workers were at work for at least 90 % of the time: more of them"));
}

// More workers would only share the CPUs that these lack.
TEST_F(WorkerLoadsTest, WorkersWithoutACpuAreNotTooFew) {
  const ThreadIndex second = maker_.AddThread(20, 20, "pt_data_worker");
  for (int step = 0; step < kSteps; ++step) {
    for (const ThreadIndex worker : {worker_, second}) {
      const int64_t at_ns = BeginOf(step) + 3 * kMs;
      maker_.AddSystemEvent(
          MakeOffCpu(worker, WaitReason::kPreempted, at_ns, at_ns + 3 * kMs, 3 * kMs));
    }
  }
  EXPECT_THAT(EvidenceOfWorker(0, [](int, int) { return kNoSystemFile; }),
              HasSubstr("of the time, and wait for a CPU for much of it: less work for each item "
                        "would make batches come sooner, more of them would not."));
}

TEST_F(WorkerLoadsTest, OneThatTakesLongerIsNamed) {
  EXPECT_THAT(EvidenceOf(1, {8, 7, 9}),
              HasSubstr("PID 9 was at work for 90 % of the time, the other 3 workers for 30 % at "
                        "the most: its items take longer."));
}

TEST_F(WorkerLoadsTest, WhatIsNotClearIsNotSaid) {
  EXPECT_THAT(EvidenceOf(1, {5}), Not(HasSubstr("at work")));
}

TEST_F(DataRulesTest, ManyShortCallsOnOneFileAreOne) {
  const SystemFileId shard = maker_.AddSystemFile(SystemFileKind::kRegular, "/data/shard.bin");
  EXPECT_THAT(EvidenceOfWorker(8, [&](int, int) { return shard; }),
              HasSubstr("The calls that took longest were read of /data/shard.bin, 100 % of the "
                        "wait; 8.0 kB a batch were read in that time"));
}

TEST_F(DataRulesTest, WorkersThatAreStartedAgainAndAgainAreTold) {
  for (uint32_t i = 0; i < 6; ++i) {
    const ThreadIndex worker = maker_.AddThread(50 + i, 50 + i, "pt_data_worker");
    const int64_t begin_ns = BeginOf(2 * static_cast<int>(i));
    maker_.AddSystemEvent(MakeCall(worker, "read", begin_ns, begin_ns + kMs, 1));
    maker_.AddSystemEvent(MakeCall(worker, "read", begin_ns + 8 * kMs, begin_ns + 9 * kMs, 1));
  }
  const std::string text = EvidenceOfWorker(1, [](int, int) { return kNoSystemFile; });
  EXPECT_THAT(text, HasSubstr("7 workers ran, 2 at a time: they are started anew"));
  EXPECT_THAT(text, Not(HasSubstr("at work")));
}

TEST_F(DataRulesTest, WorkersThatStayAreNotTold) {
  EXPECT_THAT(EvidenceOfWorker(1, [](int, int) { return kNoSystemFile; }),
              Not(HasSubstr("persistent_workers")));
}

// A dataset may have a DataLoader of its own.
TEST_F(DataRulesTest, BatchesThatAWorkerTakesAreNotTheJobs) {
  const LabelId next =
      maker_.AddAnnotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
  for (int step = 0; step < kSteps; ++step) {
    for (int i = 0; i < 3; ++i) {
      const int64_t at_ns = BeginOf(step) + (4 + i) * kMs;
      maker_.Add(worker_, next, at_ns, at_ns + kMs / 2);
    }
  }
  EvidenceOfWorker(1, [](int, int) { return kNoSystemFile; });
  size_t nested = 0;
  for (const DataWait& wait : aggregates_.data_waits) {
    EXPECT_EQ(wait.is_nested, timeline_->span(wait.span).thread == worker_);
    if (wait.is_nested) ++nested;
  }
  EXPECT_EQ(nested, 3u * kSteps);
  EXPECT_EQ(aggregates_.data_waits.size(), 4u * kSteps);
}

TEST_F(DataRulesTest, AWorkerThatComputesIsToldByItsFunction) {
  const auto no_file = [](int, int) { return kNoSystemFile; };
  EvidenceOfWorker(0, no_file);
  EXPECT_EQ(FindKind(FindVerdict(*timeline_, aggregates_), FindingKind::kDataLoader)->next,
            "--sample 99Hz");
}

TEST_F(DataRulesTest, SamplesTellTheFunctionOfTheWorker) {
  Samples samples;
  samples.functions.push_back({Pid{9}, SampleFrameKind::kPython, "augment", "data.py", 1});
  samples.frames.push_back({0, 0, 12});
  samples.frames.push_back({0, 0, 90});
  const auto frame = static_cast<uint32_t>(samples.frames.size() - 2);
  for (int step = 0; step < kSteps; ++step) {
    const auto add = [&](int64_t at_ns, uint32_t of) {
      samples.samples.push_back({.time_ns = BeginOf(step) + at_ns,
                                 .period_ns = kMs,
                                 .count = 1,
                                 .frame = of,
                                 .thread = worker_});
    };
    add(5 * kMs, frame);
    add(kMs, frame + 1);  // nobody waits for it then
  }
  maker_.SetSamples(samples);
  EXPECT_THAT(EvidenceOfWorker(0, [](int, int) { return kNoSystemFile; }),
              HasSubstr("PID 9 was in data.py(12): augment for 100 % of that, by samples."));
}

// A DataLoader without workers; of ten looks at the thread `of_sampler` are in its sampler.
class SamplerTest : public DataRulesTest {
 protected:
  std::string EvidenceOfSampler(int of_sampler) {
    maker_.info().system.sched = maker_.info().system.calls = true;
    const LabelId next =
        maker_.AddAnnotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
    Samples samples;
    const auto function = [&](const char* name, const char* file) {
      samples.functions.push_back({Pid{1}, SampleFrameKind::kPython, name, file, 1});
      return static_cast<uint32_t>(samples.functions.size() - 1);
    };
    const uint32_t index =
        function("_BaseDataLoaderIter._next_index", "/lib/torch/utils/data/dataloader.py");
    const uint32_t draw = function("WeightedSampler.__iter__", "job.py");
    const uint32_t item = function("Images.__getitem__", "job.py");
    samples.frames.push_back({0, index, 10});
    samples.frames.push_back({static_cast<uint32_t>(samples.frames.size() - 1), draw, 20});
    samples.frames.push_back({0, item, 30});
    const auto of_item = static_cast<uint32_t>(samples.frames.size() - 1);
    MakeSteps([&](int step, int64_t from_ns, int64_t to_ns) {
      maker_.Begin(thread_, next, from_ns);
      samples.samples.push_back({.time_ns = from_ns,
                                 .period_ns = kMs / 10,
                                 .count = 1,
                                 .frame = step % 10 < of_sampler ? of_item - 1 : of_item,
                                 .thread = thread_});
      maker_.End(thread_, to_ns);
    });
    maker_.SetSamples(samples);
    const std::optional<Finding> finding = FindKind(Why(), FindingKind::kDataLoader);
    return finding ? EvidenceOf(*finding) : "";
  }
};

TEST_F(SamplerTest, ASamplerIsTimeThatWorkersDoNotTake) {
  const std::string text = EvidenceOfSampler(9);
  EXPECT_THAT(text, HasSubstr("are in its sampler, which runs in this process even where"));
  EXPECT_THAT(text, HasSubstr("WeightedSampler.__iter__"));
  EXPECT_THAT(text, Not(HasSubstr("This DataLoader has no worker")));
}

TEST_F(SamplerTest, BatchesAreTimeThatWorkersTake) {
  const std::string text = EvidenceOfSampler(1);
  EXPECT_THAT(text, Not(HasSubstr("sampler")));
  EXPECT_THAT(text, HasSubstr("This DataLoader has no worker"));
}

TEST_F(DataRulesTest, ACallInWhichAWorkerIsBlockedIsNamedWithItsFile) {
  const SystemFileId lock = maker_.AddSystemFile(SystemFileKind::kRegular, "/data/lock");
  for (int step = 0; step < kSteps; ++step) {
    const int64_t at_ns = BeginOf(step) + 3 * kMs;
    SystemEvent call = MakeCall(worker_, "flock", at_ns, at_ns + 3 * kMs, 0);
    call.file = lock;
    SystemEvent wait = MakeOffCpu(worker_, WaitReason::kOther, at_ns, at_ns + 3 * kMs, 0, "flock");
    wait.around = maker_.AddSystemEvent(call);
    maker_.AddSystemEvent(wait);
  }
  EXPECT_THAT(EvidenceOfWorker(0, [](int, int) { return kNoSystemFile; }),
              HasSubstr("It was blocked in flock of /data/lock for 50 % of that time."));
}

// While it is waited for, the worker waits for its next order itself.
TEST_F(DataRulesTest, ABatchThatIsThereIsNotTheWorkersFault) {
  Samples samples;
  samples.functions.push_back(
      {Pid{9}, SampleFrameKind::kPython, "_worker_loop", "torch/utils/data/_utils/worker.py", 1});
  samples.functions.push_back({Pid{9}, SampleFrameKind::kPython, "Queue.get",
                               "/usr/lib/python3.11/multiprocessing/queues.py", 1});
  samples.functions.push_back({Pid{9}, SampleFrameKind::kPython, "select", "selectors.py", 1});
  samples.frames.push_back({0, 0, 12});
  for (uint32_t function = 1; function <= 2; ++function) {
    samples.frames.push_back({static_cast<uint32_t>(samples.frames.size() - 1), function, 20});
  }
  for (int step = 0; step < kSteps; ++step) {
    samples.samples.push_back({.time_ns = BeginOf(step) + 5 * kMs,
                               .period_ns = kMs,
                               .count = 1,
                               .frame = static_cast<uint32_t>(samples.frames.size() - 1),
                               .thread = worker_});
  }
  maker_.SetSamples(samples);
  const std::string text = EvidenceOfWorker(0, [](int, int) { return kNoSystemFile; });
  EXPECT_THAT(text, HasSubstr("For 100 % of that, by samples, the worker waited for its next "
                              "order: it had made the batch"));
  EXPECT_THAT(text, Not(HasSubstr("select")));
}

TEST_F(DataRulesTest, FilesOfBatchesThatTheThreadMakesAreNamed) {
  maker_.info().system.sched = maker_.info().system.calls = true;
  const LabelId next =
      maker_.AddAnnotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
  const SystemFileId folder = maker_.AddSystemFile(SystemFileKind::kDirectory, "/data/train");
  MakeSteps([&](int, int64_t from_ns, int64_t to_ns) {
    maker_.Begin(thread_, next, from_ns);
    SystemEvent call = MakeCall(thread_, "getdents64", from_ns, to_ns, 1000);
    call.file = folder;
    maker_.AddSystemEvent(call);
    maker_.End(thread_, to_ns);
  });
  const std::optional<Finding> finding = FindKind(Why(), FindingKind::kDataLoader);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(EvidenceOf(*finding),
              HasSubstr("The calls that took longest were getdents64 of /data/train, 100 % of "
                        "that time."));
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
