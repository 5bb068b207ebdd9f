#include "exporters/tables/collective_calls.h"

#include <map>
#include <string>
#include <utility>

#include "exporters/args/collective_args.h"
#include "exporters/args/distributed_info.h"
#include "exporters/sinks/escape.h"
#include "userspace/aggregate/collectives.h"
#include "userspace/aggregate/each_span.h"
#include "userspace/collectives/collective_rows.h"
#include "userspace/model/torch_rules.h"

namespace proftrace {
namespace {

// Adds the number that links kernels to the rows that ask for them, as Kineto's "External id" does.
void AddLink(SpanId row, ArgsText* args) {
  args->Number("External id", static_cast<int64_t>(Raw(row)) + 1);
}

// Passes a process's rows to CollectiveRows, with the args that they have in a trace.
class CallFinder {
 public:
  explicit CallFinder(const Timeline& timeline) : timeline_(timeline) {
    for (const Label& label : timeline.labels()) {
      is_wanted_.push_back(IsCallOfCollective(label.name) || IsTitleOfWork(label.name));
    }
  }

  std::map<uint32_t, CollectiveRows> Find() {
    ForEachSpan(timeline_, [this](SpanId id, const Span& span) {
      if (is_wanted_[Raw(span.label)]) TakeSpan(id, span);
    });
    const DeviceActivityStore& activities = timeline_.device_activities();
    for (uint32_t i = 0; i < activities.size(); ++i) {
      if (activities.at(i).kind == DeviceActivityKind::kKernel) TakeKernel(activities.at(i));
    }
    return std::move(rows_);
  }

 private:
  void TakeSpan(SpanId id, const Span& span) {
    const Thread& thread = timeline_.thread(span.thread);
    const Label& label = timeline_.label(span.label);
    ArgsText args;
    AddLink(id, &args);
    if (const OperatorInputs* inputs = timeline_.inputs_of(id); inputs != nullptr) {
      args.Json("Concrete Inputs", inputs->concrete);
      args.Json("Input type", inputs->types);
      args.Json("Input Dims", inputs->dims);
      args.Members(RowKeywordArgs(timeline_, id, *inputs));
    }
    const std::string text = "{" + args.Take() + "}";
    const std::string name = JsonEscaped(label.name);
    SourceEvent event;
    event.name = name;
    event.category = CategoryName(label.category);
    event.pid = int64_t{Raw(thread.pid)};
    event.tid = int64_t{Raw(thread.tid)};
    event.begin_ns = span.start_ns;
    event.duration_ns = span.duration_ns;
    event.args = text;
    rows_[Raw(thread.pid)].Take(event);
  }

  void TakeKernel(const DeviceActivity& kernel) {
    const std::string& kernel_name = timeline_.device_name(kernel.name);
    std::optional<Collective> collective;
    if (kernel.op != kNoSpan) collective = CollectiveOf(timeline_, kernel.op, kernel_name);
    if (!collective && !IsCommunicationKernel(kernel_name)) return;
    ArgsText args;
    if (kernel.op != kNoSpan) AddLink(kernel.op, &args);
    if (kernel.device != kNowhere) args.Number("device", kernel.device);
    if (kernel.stream != kNowhere) args.Number("stream", kernel.stream);
    if (collective) AddCollectiveArgs(*collective, &args);
    const std::string text = "{" + args.Take() + "}";
    const std::string name = JsonEscaped(kernel_name);
    SourceEvent event;
    event.name = name;
    event.category = DeviceCategoryName(DeviceActivityKind::kKernel);
    event.begin_ns = kernel.start_ns;
    event.duration_ns = kernel.duration_ns;
    event.args = text;
    rows_[Raw(kernel.pid)].Take(event);
  }

  const Timeline& timeline_;
  std::vector<bool> is_wanted_;  // by LabelId
  std::map<uint32_t, CollectiveRows> rows_;
};

}  // namespace

std::vector<ProcessCalls> FindCollectiveCalls(const Timeline& timeline) {
  std::map<uint32_t, CollectiveRows> rows = CallFinder(timeline).Find();
  std::vector<ProcessCalls> processes;
  for (const Target& target : timeline.info().targets) {
    const auto at = rows.find(Raw(target.pid));
    if (at == rows.end()) continue;
    ProcessCalls process;
    process.pid = target.pid;
    JobFacts job;
    if (target.rank) job = ReadDistributedInfo(DistributedInfo(target));
    process.facts.rank = job.rank;
    process.facts.world_size = job.world_size;
    at->second.Finish(job, 0, &process.facts);
    processes.push_back(std::move(process));
    rows.erase(at);
  }
  return processes;
}

}  // namespace proftrace
