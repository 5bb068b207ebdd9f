// The rules of `why`: each tells what is to be said of one cause, should it matter.
#pragma once

#include <cstdint>
#include <optional>

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

enum class PythonSource : uint8_t { kNone, kSamples, kStacks };

// Adds the function of Python that the thread was in most, in that part, to the evidence: by
// samples, else by the stacks of operators around. Returns by which; kNone: nothing was added.
PythonSource AddPython(const Case& job, StepPart part, Finding* finding);

// Adds to the evidence what `waker` did while the thread waited, in that part, for it to end the
// wait. Returns whether that thread mostly waited for files or sockets: for somebody outside of the
// job.
bool AddMeanwhile(const Case& job, StepPart part, ThreadIndex waker, Finding* finding);

// Some steps take much longer than the others: what they take more, and what of.
std::optional<Finding> FindUnevenSteps(const Case& job);

// What recording itself cost, where that is much.
std::optional<Finding> FindRecording(const Case& job);

// Fills `verdict` with what a device did, or why it had nothing to do; false: none worked for the
// process, and what its threads did on the CPU is the answer.
bool FindDevice(const Case& job, Verdict* verdict);

}  // namespace proftrace
