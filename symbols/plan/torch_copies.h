// A process that has PyTorch more than once: another copy or version that was loaded from somewhere
// else, or the same files once more in a namespace of the linker of their own (dlmopen). In one
// namespace the copies would share the one Dispatcher (a GNU_UNIQUE symbol), and the second one
// ends the process when it registers its operators.
#pragma once

#include <string>
#include <vector>

#include "symbols/probe_plan.h"
#include "symbols/process/process_maps.h"

namespace proftrace {

struct TorchChoice {
  std::vector<MappedFile> files;    // without torch's own libraries of the other copies
  std::vector<FileId> all;          // those too; see IdsOf
  std::vector<std::string> others;  // paths of the libtorch_cpu of each copy that is left out
  std::string repeated;  // path of a libtorch_cpu that is loaded more than once, or empty
};

// One PyTorch is recorded: the one with a Python binding, else the first by its path, so that every
// look at the process chooses the same.
TorchChoice ChooseTorch(std::vector<MappedFile> files);

// Whether the process has loaded the same PyTorch more than once. Takes a millisecond.
bool HasRepeatedTorch(Pid pid);

// Returns what is to be noticed of a file: the file, and each further time that it is loaded.
std::vector<FileId> IdsOf(const MappedFile& file);

// Names in the plan what is left out. Where a file is loaded twice, leaves out what cannot be told
// apart: its probes fire in both copies, but sequence numbers and the undefined tensor are each
// copy's own.
void ApplyChoice(const TorchChoice& choice, ProbePlan* plan);

}  // namespace proftrace
