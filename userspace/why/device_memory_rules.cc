// Rules about PyTorch's caching allocator of device memory. It keeps the memory that it got, so
// that a loop that has run for a while no longer asks the driver. Where it still asks, its cache is
// too small or in pieces of the wrong sizes, and each call waits for the device or the driver:
//
//   step 1: cudaMalloc …   step 2: –   step 3: –          a loop that has begun
//   step 1: cudaMalloc …   step 2: cudaFree cudaMalloc …  a cache that is given up and filled again
#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/aggregate/each_span.h"
#include "userspace/aggregate/memory_curves.h"
#include "userspace/base/shown_text.h"
#include "userspace/why/rules.h"

namespace proftrace {
namespace {

// The number of first steps, which fill the cache.
constexpr size_t kFillingSteps = 2;
constexpr size_t kFewestAskingSteps = 3;  // of the other steps: fewer are due to a rare input

// Calls that take device memory from the driver or give it back, also for expandable segments.
// Memory of the host has another cache.
constexpr std::array<std::string_view, 9> kCalls = {"cudaMalloc", "cudaFree",    "hipMalloc",
                                                    "hipFree",    "cuMemCreate", "cuMemRelease",
                                                    "cuMemMap",   "cuMemUnmap",  "cuMemSetAccess"};

bool IsCallOfAllocator(const Label& label) {
  return IsCudaCall(label.category) &&
         std::find(kCalls.begin(), kCalls.end(), label.name) != kCalls.end();
}

struct AllocatorCalls {
  TimeIntervals times;  // of the driving thread, in steps
  std::set<size_t> steps;
  absl::flat_hash_map<uint32_t, uint64_t> by_label;
  uint64_t count = 0;
};

AllocatorCalls FindCalls(const Case& job) {
  std::vector<bool> is_call;
  for (const Label& label : job.timeline.labels()) is_call.push_back(IsCallOfAllocator(label));
  AllocatorCalls calls;
  ForEachSpan(job.timeline, [&](SpanId, const Span& span) {
    if (!is_call[Raw(span.label)] || span.thread != job.parts.thread || span.is_apart) return;
    const std::optional<size_t> step = job.parts.StepAt(span.start_ns);
    if (!step.has_value() || *step < kFillingSteps) return;
    ++calls.count;
    ++calls.by_label[Raw(span.label)];
    calls.steps.insert(*step);
    const bool is_inside = !calls.times.empty() && span.start_ns < calls.times.back().second;
    if (!is_inside) calls.times.emplace_back(span.start_ns, span.end_ns());
  });
  return calls;
}

// Memory that the allocator took from the driver although it had more than that unused.
struct Unusable {
  uint64_t times = 0;
  std::set<size_t> steps;
  int64_t taken_bytes = 0;
  int64_t most_unused_bytes = 0;  // that were there at such a time
  int64_t failed_bytes = 0;       // of an allocation that failed so; 0 = none did
  int64_t failed_unused_bytes = 0;
};

// Finds such memory in the events of one device. Between two events `total_reserved` grows by the
// memory that the driver gave for the second one.
Unusable FindUnusable(const Case& job, const MemoryCurve& curve) {
  Unusable found;
  int64_t reserved = -1, allocated = 0;  // after the event before; -1 = not known
  const MemoryEventStore& events = job.timeline.memory_events();
  for (uint32_t i = 0; i < events.size(); ++i) {
    const MemoryEvent& event = events.at(i);
    if (!curve.Has(job.timeline, event)) continue;
    const int64_t unused = reserved < 0 ? 0 : reserved - allocated;
    if (event.kind == MemoryEventKind::kOutOfMemory) {
      if (reserved < 0 || event.bytes <= 0 || unused < event.bytes) continue;
      found.failed_bytes = event.bytes;
      found.failed_unused_bytes = unused;
      continue;
    }
    if (!event.total_known) {
      reserved = -1;
      continue;
    }
    const int64_t growth = event.total_reserved - reserved;
    const std::optional<size_t> step = job.parts.StepAt(event.time_ns);
    if (reserved >= 0 && event.bytes > 0 && growth > 0 && unused >= event.bytes &&
        step.has_value() && *step >= kFillingSteps) {
      ++found.times;
      found.steps.insert(*step);
      found.taken_bytes += growth;
      found.most_unused_bytes = std::max(found.most_unused_bytes, unused);
    }
    reserved = event.total_reserved;
    allocated = event.total_allocated;
  }
  return found;
}

constexpr char kExpandable[] =
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or sizes that are the same in each step, "
    "help against that";

}  // namespace

std::optional<Finding> FindDeviceAllocator(const Case& job, PartTimes* taken) {
  if (!job.parts.are_steps) return std::nullopt;
  const AllocatorCalls calls = FindCalls(job);
  if (calls.steps.size() < kFewestAskingSteps) return std::nullopt;
  *taken = job.parts.TimesIn(calls.times);
  Finding finding;
  finding.kind = FindingKind::kAllocator;
  for (const int64_t ns : *taken) finding.ns += ns;
  finding.what = DriverText(job) +
                 " has PyTorch's allocator take device memory from the driver, "
                 "or give it back";
  std::string text = CountText(calls.count, "call", "calls") + " in " +
                     std::to_string(calls.steps.size()) + " of the " +
                     std::to_string(job.steps() - kFillingSteps) + " steps after the first two";
  if (const auto most = LargestValue(calls.by_label); most != calls.by_label.end()) {
    text += ", " + ShownText(job.timeline.label(LabelId{most->first}).name) + " " +
            CountText(most->second, "time", "times");
  }
  finding.evidence.push_back(text + ".");
  finding.evidence.emplace_back(
      "Its cache was emptied (torch.cuda.empty_cache()), is full, or has no piece that fits; "
      "each such call waits for the driver, and a cudaFree for all of the GPU's work.");
  if (!job.timeline.has_memory()) finding.next = "--profile-memory";
  return finding;
}

std::string DeviceMemoryRemark(const Case& job) {
  if (!job.timeline.has_memory()) return "";
  for (const MemoryCurve& curve : MemoryCurves(job.timeline)) {
    if (curve.device_type == 0 || curve.pid != job.parts.pid) continue;
    const Unusable found = FindUnusable(job, curve);
    if (found.failed_bytes > 0) {
      return "An allocation of " + BytesText(found.failed_bytes) + " failed on " +
             curve.DeviceText() + ", though PyTorch's allocator had " +
             BytesText(found.failed_unused_bytes) +
             " that nobody used: in pieces that were too small, or of other streams. " +
             kExpandable + ".";
    }
    if (!job.parts.are_steps || found.steps.size() < kFewestAskingSteps) continue;
    return "In " + std::to_string(found.steps.size()) +
           " steps PyTorch's allocator took more memory of " + curve.DeviceText() +
           " from the driver, " + BytesText(found.taken_bytes) + " in all, though it had up to " +
           BytesText(found.most_unused_bytes) +
           " that nobody used: in pieces that were too small (fragmentation), or of other "
           "streams. " +
           kExpandable + ".";
  }
  return "";
}

}  // namespace proftrace
