// The rules of `report --why`. Each rule makes the finding about one cause.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "userspace/why/case.h"
#include "userspace/why/finding.h"

namespace proftrace {

// The option that tells waits and system calls apart.
inline constexpr char kMoreOfKernel[] = "--activities cpu,sched,syscalls";

// What a thread does that calls sched_yield() in a loop.
inline constexpr char kYields[] =
    "A loop that calls sched_yield() waits for another thread without sleeping (a busy wait).";

// With fewer steps, one that differs from the others means nothing.
inline constexpr size_t kFewestStepsToCompare = 8;

// Returns a finding with all time of that part; `what`: its clause.
inline Finding FindingOf(const Case& job, FindingKind kind, StepPart part, std::string what) {
  Finding finding;
  finding.kind = kind;
  finding.ns = job.parts.of(part);
  finding.what = std::move(what);
  return finding;
}

// Each of the next functions is about one part of the steps (StepPart) and returns a finding with
// all time of that part; nullopt: there is nothing to say about it. The caller decides whether the
// time is large enough to be told.
std::optional<Finding> FindDataLoader(const Case& job);
std::optional<Finding> FindCollectives(const Case& job);
std::optional<Finding> FindRunQueue(const Case& job);
std::optional<Finding> FindFaults(const Case& job);
std::optional<Finding> FindSystemRecords(const Case& job);
std::optional<Finding> FindLock(const Case& job);
std::optional<Finding> FindOtherThread(const Case& job);
std::optional<Finding> FindIo(const Case& job);
std::optional<Finding> FindOtherWaits(const Case& job);
std::optional<Finding> FindCollection(const Case& job);
std::optional<Finding> FindSynchronizing(const Case& job);
std::optional<Finding> FindOperators(const Case& job);
std::optional<Finding> FindPython(const Case& job);
std::optional<Finding> FindBetweenSteps(const Case& job);

// Finds that torch.compile compiles in the loop. `taken` is set to the time of each part that
// belongs to this finding, and therefore to no other one; it is left alone where there is no
// finding.
std::optional<Finding> FindRecompilation(const Case& job, PartTimes* taken);

// Finds that PyTorch's allocator of device memory asks the driver for memory, or gives it back, in
// the loop. `taken`: as for FindRecompilation().
std::optional<Finding> FindDeviceAllocator(const Case& job, PartTimes* taken);
// Returns a sentence on what the recorded memory shows about that allocator, however little time it
// takes; empty: there is nothing to say.
std::string DeviceMemoryRemark(const Case& job);

// Finds that the thread waits for the lock of Python's interpreter (GIL), which is a part of its
// waits for locks. `taken`: as for FindRecompilation().
std::optional<Finding> FindGil(const Case& job, PartTimes* taken);

enum class PythonSource : uint8_t { kNone, kSamples, kStacks };

// Adds the function of Python in which the driving thread was most during that part to the
// evidence. It is found by samples. Without them the function that called the operators around that
// time is told, which need not be the one that took the time: a function that runs no operator is
// in no operator's stack. Returns which of the two; kNone: nothing was added.
PythonSource AddPython(const Case& job, StepPart part, Finding* finding);
enum class NativeSource : uint8_t { kNone, kTorch, kOther };

// Adds the library of native code that Python called and that has at least half of the driving
// thread's samples in that part. Functions of the interpreter itself count as Python. Returns whose
// library that is; kNone: there is none.
NativeSource AddNative(const Case& job, StepPart part, Finding* finding);
// Adds the library that has a fifth or more of the driving thread's samples in operators, and that
// is neither PyTorch's nor one that operators are made of. Returns its share, 0 to 1; 0: it is
// less.
double AddForeignNative(const Case& job, Finding* finding);
// Adds the native function in which `threads`, which run no Python, were most during their times;
// `who` as for AddPython(). Returns whether anything was added.
bool AddNativePlace(const Case& job, const TimesByThread& threads, const std::string& who,
                    Finding* finding);
// Adds the lines of Python from which that part was called, by samples: where the calls part, which
// mostly is in the loop of the steps.
void AddCallingLines(const Case& job, StepPart part, Finding* finding);
// Returns a sentence on the job's own function whose time, with all that it calls, is more than
// `largest_ns` of the steps, by samples: it can lie in several findings, of which each is smaller.
// Empty: there is none.
std::string OwnPlaceText(const Case& job, int64_t largest_ns);
// Adds the function of Python that operators call (hooks, autograd Functions) if such functions
// have a fifth of the driving thread's samples in that part. Returns their share, 0 to 1; 0: it is
// less, or not known.
double AddCalledPython(const Case& job, StepPart part, Finding* finding);
// Adds how much of the driving thread's operators belongs to a forward pass that activation
// checkpointing runs once more, by samples, if that is a twentieth or more.
void AddSecondForward(const Case& job, Finding* finding);
// Adds the function in which `threads` were most during their times, a native one where they run no
// Python; `who`: their name in the sentence.
PythonSource AddPython(const Case& job, const TimesByThread& threads, const std::string& who,
                       Finding* finding);

// Adds the function in which the driving thread was where samples found it in that system call,
// waiting or not. It is for calls that wait for so short a time that hardly any sample can be taken
// meanwhile.
void AddPythonAround(const Case& job, int32_t call, Finding* finding);

// Adds the function as AddPython() does, and where samples tell it, the lines from which it was
// called, as AddCallingLines() does: those of the job itself, where a library waits or reads for
// it.
PythonSource AddPlaces(const Case& job, const TimesByThread& threads, const std::string& who,
                       Finding* finding);
PythonSource AddPlaces(const Case& job, StepPart part, Finding* finding);

// Adds to the evidence what the thread that ended the longest wait of that part did while the
// driving thread waited for it, and in which row and function it was. Returns whether that thread
// mostly waited for files or sockets, which means for somebody outside of the job. Adds nothing
// where no wait (nullptr) or no such thread is known.
bool AddMeanwhile(const Case& job, StepPart part, const WaitSum* longest, Finding* finding);
// Adds what `other` did in the times `waits`, in which it was waited for.
bool AddMeanwhile(const Case& job, const TimeIntervals& waits, ThreadIndex other, Finding* finding);

// Finds that some steps take much longer than the others, by how much, and which part makes the
// difference.
std::optional<Finding> FindUnevenSteps(const Case& job);

// Returns a sentence where steps become longer and longer; empty: they do not.
std::string GrowthRemark(const Case& job);

// Returns a sentence where a profiler or a debugger is on in the job itself, as far as samples
// tell; empty: no such thing is known.
std::string WatcherRemark(const Case& job);

// Returns a sentence where a quota of CPU time kept threads of the job from running, but not the
// thread of the verdict, or not for long; empty: no such thing is known.
std::string ThrottlingRemark(const Case& job);

// Returns sentences on what the kernel counted of the whole host that makes the same work take
// longer: hot processors, a limit of their frequency, memory of another node.
std::vector<std::string> HostRemarks(const RecordingInfo& info);

// Finds that hits of probes and jumps cost much. What records of system activity cost is a part of
// its own (FindSystemRecords()).
std::optional<Finding> FindRecording(const Case& job);

// Fills `verdict` with what a device did, or why it had nothing to do. Returns false where no
// device worked for the process, so that the reasons lie in what its threads did on the CPU.
bool FindDevice(const Case& job, Verdict* verdict);

}  // namespace proftrace
