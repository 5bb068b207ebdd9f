// Finds where a target has the dynamic loader's functions, and the instructions for system calls.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "symbols/process/process_maps.h"
#include "userspace/inject/remote_calls.h"

namespace proftrace {

struct LoaderPlaces {
  uint64_t dlopen = 0;
  uint64_t dlsym = 0;
  uint64_t dlerror = 0;
  uint64_t errno_location = 0;  // __errno_location
  SystemCallPlaces system_calls;
};

// Finds the places in the process's glibc. Fails with one sentence if there is no glibc: for a
// static program, or with another libc.
absl::StatusOr<LoaderPlaces> FindLoaderPlaces(Pid pid, const std::vector<Mapping>& mappings);

struct FunctionName {
  std::string file_prefix;  // the begin of the file's name ("libtorch_cpu.so")
  std::string symbol;       // the mangled name
};
struct ExportedFunction {
  uint64_t address = 0;  // in the target; 0: there is none
  uint64_t bytes = 0;
};

// Returns, for each of the `wanted` functions, the one that a mapped file exports.
std::vector<ExportedFunction> FindExportedFunctions(Pid pid, const std::vector<MappedFile>& files,
                                                    const std::vector<FunctionName>& wanted);

// Reads the bytes at `address` from the file that is mapped there: code without the breakpoints and
// jumps that others have put into the process. Returns false if no file's code is mapped there, or
// if the mapping ends before the last byte.
bool ReadMappedFile(Pid pid, const std::vector<Mapping>& mappings, uint64_t address, void* buffer,
                    size_t bytes);

}  // namespace proftrace
