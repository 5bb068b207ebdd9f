// What a capture has of its processes' jobs, written and read back.
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/pipeline/timeline.h"

namespace proftrace {
namespace {

CaptureMetadata ReadOf(const std::string& json) {
  CaptureMetadata metadata;
  EXPECT_TRUE(metadata.Merge(json).ok());
  return metadata;
}

ProcessEntry ProcessOfAJob() {
  ProcessEntry process;
  process.target.pid = Pid{RecordMaker::kPid};
  process.target.rank = 3;
  process.target.job.local_rank = 1;
  process.target.job.master_addr = "host\xff";
  process.target.job.master_port = 29500;
  process.target.job.elastic_run_id = "run";
  process.target.job.slurm_step_id = 4294967291;
  process.target.job.kubernetes_pod = "trainer-0";
  process.target.namespace_pids = {RecordMaker::kPid, 12};
  process.target.pid_namespace = 4026532000;
  process.target.start_ticks = 815;
  process.target.monotonic_offset_ns = -3'600'000'000'001;
  process.target.control_group = "/kubepods.slice/a\xff";
  return process;
}

TEST(JobMetadataTest, AProcessIsReadAsItWasWritten) {
  MetadataWriter writer;
  const ProcessEntry process = ProcessOfAJob();
  writer.AddProcess(process);
  const CaptureMetadata metadata = ReadOf(writer.TakeJson().front());
  ASSERT_EQ(metadata.processes.size(), 1u);
  const Target& read = metadata.processes[0].target;
  EXPECT_EQ(read.job, process.target.job);
  EXPECT_EQ(read.namespace_pids, process.target.namespace_pids);
  EXPECT_EQ(read.pid_namespace, 4026532000u);
  EXPECT_EQ(read.start_ticks, 815u);
  EXPECT_EQ(read.monotonic_offset_ns, -3'600'000'000'001);
  EXPECT_EQ(read.boottime_offset_ns, std::nullopt);
  EXPECT_EQ(read.control_group, "/kubepods.slice/a\xff");
}

TEST(JobMetadataTest, ValuesThatCannotBeAreLeftOut) {
  const CaptureMetadata metadata = ReadOf(
      R"([{"type":"process","pid":7,"job":{"local_rank":-1,"master_port":4294967296,
           "slurm_job_id":"5","master_addr":5,"elastic_run_id":")" +
      std::string(kMostJobTextBytes + 1, 'x') + R"(","group_rank":2},
           "namespace_pids":[7,-1],"pid_namespace":-5},
          {"type":"process","pid":8,"job":7,"namespace_pids":5}])");
  ASSERT_EQ(metadata.processes.size(), 2u);
  JobIdentity only;
  only.group_rank = 2;
  EXPECT_EQ(metadata.processes[0].target.job, only);
  EXPECT_TRUE(metadata.processes[0].target.namespace_pids.empty());
  EXPECT_EQ(metadata.processes[0].target.pid_namespace, 0u);
  EXPECT_EQ(metadata.processes[1].target.job, JobIdentity());
  EXPECT_TRUE(metadata.processes[1].target.namespace_pids.empty());
}

TEST(JobMetadataTest, WhatAProgramSetLaterTakesThePlaceOfWhatItHadAtFirst) {
  MetadataWriter writer;
  writer.AddProcess(ProcessOfAJob());
  JobEntry later;
  later.world_size = 8;
  later.identity.local_rank = 2;
  writer.AddJob(Pid{RecordMaker::kPid}, later);
  const CaptureMetadata metadata = ReadOf(writer.TakeJson().front());
  RecordMaker maker;
  maker.Begin(1, 1000, 1, 0);
  const auto timeline = Build(maker, metadata);
  const Target& target = timeline->info().targets.front();
  EXPECT_EQ(target.rank, 3) << "the later reading has none";
  EXPECT_EQ(target.world_size, 8);
  EXPECT_EQ(target.job, later.identity);
}

// As captures were before.
TEST(JobMetadataTest, OlderCapturesHaveNone) {
  const CaptureMetadata metadata = ReadOf(R"([{"type":"process","pid":7,"rank":1}])");
  EXPECT_EQ(metadata.processes[0].target.job, JobIdentity());
  EXPECT_EQ(metadata.processes[0].target.rank, 1);
}

}  // namespace
}  // namespace proftrace
