// Handles processes that have loaded PyTorch more than once: another copy or version from another
// folder, or the same files a second time in a linker namespace of their own (dlmopen). In one
// namespace the copies would share one Dispatcher (a GNU_UNIQUE symbol), and the second copy ends
// the process when it registers its operators.
#pragma once

#include <string>
#include <vector>

#include "symbols/probe_plan.h"
#include "symbols/process/process_maps.h"

namespace proftrace {

struct TorchChoice {
  // All files, without the torch libraries of the copies that are left out
  std::vector<MappedFile> files;
  std::vector<FileId> all;          // all files, those of the left-out copies included; see IdsOf
  std::vector<std::string> others;  // paths of the libtorch_cpu of each copy that is left out
  // The path of a libtorch_cpu that is loaded more than once; empty: there is none
  std::string repeated;
};

// Chooses the PyTorch that is recorded: the one with a Python binding or, if that does not decide,
// the first by its path, so that every look at the process chooses the same one.
TorchChoice ChooseTorch(std::vector<MappedFile> files);

// Whether the process has loaded the same PyTorch more than once. Takes a millisecond.
bool HasRepeatedTorch(Pid pid);

// Returns the ids of a file: one for the first time that it is loaded and one for each further
// time.
std::vector<FileId> IdsOf(const MappedFile& file);

// Adds gaps that name the copies that are left out. Where a file is loaded twice, also removes from
// the plan what differs between the two copies: the file's probes fire in both, but each copy has
// its own sequence numbers and undefined tensor.
void ApplyChoice(const TorchChoice& choice, ProbePlan* plan);

}  // namespace proftrace
