// The rules of `why`: each tells what is to be said of one cause, should it matter.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "userspace/why/case.h"
#include "userspace/why/finding.h"

namespace proftrace {

// Each of these speaks of one part of the steps (StepPart), and gives all of its time. nullopt:
// there is nothing to say of it. Whether it is large enough is the caller's to see.
std::optional<Finding> FindDataLoader(const Case& job);
std::optional<Finding> FindCollectives(const Case& job);
std::optional<Finding> FindRunQueue(const Case& job);
std::optional<Finding> FindFaults(const Case& job);
std::optional<Finding> FindLock(const Case& job);
std::optional<Finding> FindOtherThread(const Case& job);
std::optional<Finding> FindIo(const Case& job);
std::optional<Finding> FindOtherWaits(const Case& job);
std::optional<Finding> FindCollection(const Case& job);
std::optional<Finding> FindSynchronizing(const Case& job);
std::optional<Finding> FindOperators(const Case& job);
std::optional<Finding> FindPython(const Case& job);
std::optional<Finding> FindBetweenSteps(const Case& job);

// torch.compile compiles in the loop. `taken`: what of the parts' time is this finding's, and no
// other's; it is left alone where there is none.
std::optional<Finding> FindRecompilation(const Case& job, PartTimes* taken);

// PyTorch's allocator of device memory asks the driver for memory, or gives it back, in the loop.
// `taken`: as above.
std::optional<Finding> FindDeviceAllocator(const Case& job, PartTimes* taken);
// What memory that was recorded tells of that allocator, whatever time it takes: a sentence. Empty:
// there is nothing to say.
std::string DeviceMemoryRemark(const Case& job);

// The thread waits for the lock of Python's interpreter: a part of what it waits for locks.
// `taken`: as above.
std::optional<Finding> FindGil(const Case& job, PartTimes* taken);

enum class PythonSource : uint8_t { kNone, kSamples, kStacks };

// Adds the function of Python that the thread was in most, in that part, to the evidence: by
// samples, else by the stacks of operators around. Returns by which; kNone: nothing was added.
PythonSource AddPython(const Case& job, StepPart part, Finding* finding);
// Adds the function that any thread was in most, in these times; `who`: what the sentence calls it.
PythonSource AddPython(const Case& job, ThreadIndex thread, const TimeIntervals& times,
                       const std::string& who, Finding* finding);

// Adds to the evidence what `waker` did while the thread waited, in that part, for it to end the
// wait. Returns whether that thread mostly waited for files or sockets: for somebody outside of the
// job.
bool AddMeanwhile(const Case& job, StepPart part, ThreadIndex waker, Finding* finding);
// Adds what another thread did in the times in which it was waited for.
bool AddMeanwhile(const Case& job, const TimeIntervals& waits, ThreadIndex other, Finding* finding);

// Some steps take much longer than the others: what they take more, and what of.
std::optional<Finding> FindUnevenSteps(const Case& job);

// Where a quota of CPU time kept threads of the job from running, though not the one that the
// verdict is about, or not long: a sentence. Empty: nothing of that is known.
std::string ThrottlingRemark(const Case& job);

// What recording itself cost, where that is much.
std::optional<Finding> FindRecording(const Case& job);

// Fills `verdict` with what a device did, or why it had nothing to do; false: none worked for the
// process, and what its threads did on the CPU is the answer.
bool FindDevice(const Case& job, Verdict* verdict);

}  // namespace proftrace
