// Reads operators' schemas and process groups out of recorded processes and writes them into the
// capture. It works on a thread of its own, because it takes up to a tenth of a second for each
// process, and neither the first probe nor the ring may wait that long.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "symbols/probe_plan.h"
#include "userspace/capture/records/capture_sink.h"
#include "userspace/model/ids.h"
#include "userspace/model/recording.h"

namespace proftrace {

class SchemaCollector {
 public:
  // `sink` must outlive the collector.
  explicit SchemaCollector(CaptureSink* sink);
  ~SchemaCollector();
  SchemaCollector(const SchemaCollector&) = delete;
  SchemaCollector& operator=(const SchemaCollector&) = delete;

  // Begins to read what was requested. Nothing is read before, so that reading takes no time from
  // attaching to the first processes.
  void Start();
  // Requests the schemas of the plan's operators, for the address space `image`; they are read
  // soon.
  void Request(Pid pid, std::shared_ptr<const ProbePlan> plan, uint32_t image);
  // Reads the schemas of `operators` now.
  void Collect(Pid pid, const ProbePlan& plan, uint32_t image,
               const std::vector<OperatorInfo>& operators);
  // Reads what the process's environment now tells about its job, and the process groups if its
  // rank or its threads' names say that it has any.
  void CollectJob(Pid pid, const ProbePlan& plan);
  // Waits until everything requested is written. Nothing may be requested afterwards.
  void Finish();

  // Returns what could not be read, and why.
  std::vector<Unsupported> gaps() const;

 private:
  struct Job {
    Pid pid;
    std::shared_ptr<const ProbePlan> plan;
    uint32_t image;
  };
  void Run();
  void CollectGroups(Pid pid, const ProbePlan& plan);
  // Adds a gap once, however many processes have it.
  void AddGap(Unsupported gap);

  CaptureSink* sink_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::vector<Unsupported> gaps_;
  bool started_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace proftrace
