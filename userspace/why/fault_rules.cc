// The rule about page faults: their kinds, their memory, and whether this memory was given back to
// the kernel just before.
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "userspace/aggregate/system_text.h"
#include "userspace/aggregate/thread_events.h"
#include "userspace/base/shown_text.h"
#include "userspace/why/rules.h"

namespace proftrace {
namespace {

constexpr char kToSeeCalls[] = "--activities cpu,sched,syscalls,faults";
// glibc gives the end of its heap back by brk(), and a block that it mapped alone by munmap(). One
// of the two variables alone keeps glibc from adapting the other limit, which makes it worse.
constexpr char kKeepMemory[] =
    "Tensors that are kept and written into (out=, preallocated buffers), or an allocator that "
    "keeps memory (jemalloc, tcmalloc), would spare that. glibc's keeps it if "
    "MALLOC_MMAP_THRESHOLD_ and MALLOC_TRIM_THRESHOLD_ are both set, to more than these blocks.";
// glibc maps blocks of 128 kB and more alone, and takes smaller ones from its heap.
constexpr uint64_t kLeastMapped = 128 * 1024;
constexpr char kOwnMappings[] =
    "Pieces of this size are no tensors: the job maps and unmaps them itself, as when it loads "
    "libraries or maps files.";
constexpr char kStopAdvising[] =
    "The job itself, or an allocator that gives unused memory back after a while (jemalloc), does "
    "that.";
constexpr char kKeepObjects[] =
    "Most of it is in no operator, so that it is memory of objects rather than of tensors: objects "
    "that are kept would spare that.";
constexpr char kPythonsPieces[] =
    " Python takes its objects' memory from the kernel in pieces of 256 kB or 1 MB: many objects "
    "are made and dropped at once.";
constexpr char kPythonsFrames[] =
    "Most of it is in no operator. Pieces of this size are those in which Python keeps the frames "
    "of deep calls (recursion): a loop instead, or calls that are less deep, would spare that.";

// The kernel's name of a file for shared memory that belongs to no file.
constexpr char kSharedMemory[] = "/dev/zero";

struct Faults {
  uint64_t count = 0;
  uint64_t writes = 0;
  uint64_t major = 0;
  int64_t major_ns = 0;
  uint64_t in_rows = 0;  // of operators or Python's collector
  std::map<std::string, uint64_t> by_row;
  std::map<std::string, uint64_t> by_file;
};

// Memory that the driving thread has given back to the kernel in steps.
struct GivenBack {
  uint64_t calls = 0;
  uint64_t bytes = 0;
  std::map<std::string, uint64_t> by_call;
  std::map<uint64_t, uint64_t> by_bytes;
  uint64_t forks = 0;      // children that have a copy of the memory
  int32_t fork_call = -1;  // the number of the last call that made one
  uint64_t break_at = 0;   // the end of the heap, as the last brk() returned it; 0: not known
};

void Count(const Case& job, const SystemEvent& event, Faults* faults) {
  ++faults->count;
  if (event.fault.major) {
    ++faults->major;
    faults->major_ns += event.duration_ns;
  }
  if (event.fault.write) ++faults->writes;
  const std::string file = FileText(job.timeline, event.file);
  if (!file.empty()) ++faults->by_file[file];
  if (event.span == kNoSpan) return;
  ++faults->in_rows;
  ++faults->by_row[ShownText(job.timeline.label(job.timeline.span(event.span).label).name)];
}

void Count(const SystemEvent& event, GivenBack* given) {
  constexpr uint64_t kDontNeed = 4;  // MADV_DONTNEED and MADV_FREE of madvise(2)
  constexpr uint64_t kFree = 8;
  const std::string name(SystemEventName(event));
  uint64_t bytes = 0;
  if (name == "clone" || name == "fork") {
    constexpr uint64_t kSharesMemory = 0x100;  // CLONE_VM: a thread, or vfork()
    const bool shares = name == "clone" && event.call.argument_count > 0 &&
                        (event.call.arguments[0] & kSharesMemory) != 0;
    if (event.call.result <= 0 || shares) return;
    ++given->forks;
    given->fork_call = event.call.number;
    return;
  }
  if (name == "brk") {
    const auto at = static_cast<uint64_t>(event.call.result);
    const uint64_t before = std::exchange(given->break_at, at);
    if (before <= at) return;
    bytes = before - at;
  } else if (name == "munmap" || name == "madvise") {
    const SystemCallFacts& call = event.call;
    const bool has_advice = call.argument_count > 2;
    const uint64_t advice = has_advice ? call.arguments[2] : 0;
    if (call.result != 0) return;
    if (name == "madvise" && advice != kDontNeed && advice != kFree) return;
    if (call.argument_count > 1) bytes = call.arguments[1];
  } else {
    return;
  }
  ++given->calls;
  given->bytes += bytes;
  ++given->by_call[name];
  if (bytes > 0) ++given->by_bytes[bytes];
}

constexpr uint64_t kPageBytes = 4096;  // the least that a fault fetches

// Returns whether half of the memory of the faults or more was given back before.
bool IsGivenBack(const Faults& faults, const GivenBack& given) {
  return 2 * given.bytes >= faults.count * kPageBytes;
}

// Returns a count for each step, "1.5 times a step", or "9 times in 60 steps" where it is less.
std::string AStepText(uint64_t count, size_t steps) {
  if (count < steps) {
    return CountText(count, "time", "times") + " in " + std::to_string(steps) + " steps";
  }
  const uint64_t tenths = 10 * count / steps;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " times a step";
}

// Returns the size of most pieces of memory that were given back; 0: there is no such size.
uint64_t UsualBytes(const GivenBack& given) {
  const auto most = LargestValue(given.by_bytes);
  return most != given.by_bytes.end() && 2 * most->second > given.calls ? most->first : 0;
}

// Returns what would spare memory of objects that is taken again and again.
std::string AdviceForObjects(uint64_t bytes) {
  constexpr uint64_t kFewestKb = 16;  // the sizes of CPython: _PY_DATA_STACK_CHUNK_SIZE, ARENA_SIZE
  const uint64_t kb = bytes / 1024;
  if (kb >= kFewestKb && kb < 128) return kPythonsFrames;
  return kb == 256 || kb == 1024 ? std::string(kKeepObjects) + kPythonsPieces : kKeepObjects;
}

void TellOfFreshMemory(const Case& job, const Faults& faults, const GivenBack& given,
                       Finding* finding) {
  const bool are_objects =
      job.timeline.info().system.operators && 2 * faults.in_rows < faults.count;
  const uint64_t usual_bytes = UsualBytes(given);
  const auto call = LargestValue(given.by_call);
  const bool is_advised = call != given.by_call.end() && call->first == "madvise";
  const bool are_small = usual_bytes > 0 && usual_bytes < kLeastMapped;
  const bool are_mappings = are_small && call != given.by_call.end() && call->first == "munmap";
  const std::string advice = is_advised                     ? kStopAdvising
                             : are_mappings && !are_objects ? kOwnMappings
                             : are_objects                  ? AdviceForObjects(usual_bytes)
                                                            : kKeepMemory;
  finding->certainty = Certainty::kLikely;
  if (!job.timeline.info().system.calls) {
    finding->evidence.push_back("Fresh memory is taken from the kernel again and again. " + advice);
    finding->next = kToSeeCalls;
    return;
  }
  if (given.forks > 0 && 4 * faults.writes >= 3 * faults.count && !IsGivenBack(faults, given)) {
    finding->evidence.push_back(
        "The thread forked " + CountText(given.forks, "time", "times") +
        " meanwhile: after a fork, each page that one of the two processes writes into is copied "
        "(copy on write).");
    AddPythonAround(job, given.fork_call, finding);
    return;
  }
  if (!IsGivenBack(faults, given)) {
    const auto fetched = static_cast<int64_t>(faults.count * kPageBytes);
    finding->evidence.push_back(
        "The thread gave " + BytesText(static_cast<int64_t>(given.bytes)) +
        " back to the kernel meanwhile, and took " + BytesText(fetched) +
        ": the rest is memory that is used for the first time, as where a job grows, fills a "
        "buffer or loads libraries.");
    return;
  }
  finding->kind = FindingKind::kAllocator;
  finding->certainty = Certainty::kMeasured;
  finding->what = DriverText(job) + " gives memory back to the kernel and takes it again";
  std::string text = "It called " + call->first + " " + AStepText(given.calls, job.steps());
  if (usual_bytes > 0) text += ", mostly for " + BytesText(static_cast<int64_t>(usual_bytes));
  finding->evidence.push_back(text + "; each page is a fault when it is used again.");
  finding->evidence.push_back(advice);
}

}  // namespace

std::optional<Finding> FindFaults(const Case& job) {
  Finding finding;
  finding.kind = FindingKind::kFaults;
  finding.ns = job.parts.of(StepPart::kFaults);
  finding.what = "the kernel handles page faults";
  Faults faults;
  GivenBack given;
  const ThreadEvents events(job.timeline);
  for (const uint32_t index : events.of(job.parts.thread)) {
    const SystemEvent& event = job.timeline.system_event(index);
    if (event.kind == SystemKind::kFault && job.parts.IsIn(StepPart::kFaults, event.start_ns)) {
      Count(job, event, &faults);
    } else if (event.kind == SystemKind::kCall && job.parts.At(event.start_ns) != nullptr) {
      Count(event, &given);
    }
  }
  std::string text = CountText(faults.count / job.steps(), "fault", "faults") + " a step";
  if (const auto row = LargestValue(faults.by_row);
      row != faults.by_row.end() && 2 * row->second > faults.count) {
    text += "; most in " + row->first;
  }
  finding.evidence.push_back(text + ".");
  if (faults.major > 0) {
    const int64_t reading_ns = std::min(faults.major_ns, finding.ns);
    finding.evidence.push_back("Pages were read from a disk " +
                               AStepText(faults.major, job.steps()) + ", which took " +
                               PercentText(reading_ns, finding.ns) + " of that time.");
    if (2 * reading_ns > finding.ns) {
      finding.what = DriverText(job) + " waits until pages of a mapped file are read from a disk";
    }
  }
  if (const auto beside_ns = std::llround(job.timeline.info().cost.system.fault_beside);
      faults.count > 0 && beside_ns > 0) {
    finding.evidence.push_back("Of the time of each, " + DurationText(beside_ns) +
                               " are the way into the kernel and back, as far as a loop of "
                               "proftrace's own tells.");
  }
  const auto file = LargestValue(faults.by_file);
  const bool is_of_file = file != faults.by_file.end() && 2 * file->second > faults.count;
  const bool is_shared = is_of_file && file->first.starts_with(kSharedMemory);
  const bool is_given_back = IsGivenBack(faults, given);
  if (is_shared) {
    finding.evidence.emplace_back(
        "Most are in shared memory that belongs to no file (MAP_SHARED).");
  } else if (is_of_file) {
    finding.evidence.push_back("Most are in " + file->first + ", which is mapped.");
  }
  if (faults.count > 0 && (!is_of_file || (is_shared && is_given_back))) {
    TellOfFreshMemory(job, faults, given, &finding);
  }
  AddPlaces(job, StepPart::kFaults, &finding);
  return finding;
}

}  // namespace proftrace
