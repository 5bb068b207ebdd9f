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

// Fails with one sentence where there is no glibc: a static program, another libc.
absl::StatusOr<LoaderPlaces> FindLoaderPlaces(Pid pid, const std::vector<Mapping>& mappings);

struct FunctionName {
  std::string file_prefix;  // what the file's name begins with ("libtorch_cpu.so")
  std::string symbol;       // mangled
};
struct ExportedFunction {
  uint64_t address = 0;  // in the target; 0 = there is none
  uint64_t bytes = 0;
};

// Returns for each of them the function that a mapped file exports.
std::vector<ExportedFunction> FindExportedFunctions(Pid pid, const std::vector<MappedFile>& files,
                                                    const std::vector<FunctionName>& wanted);

// Reads the bytes that the file mapped at `address` has for it: code without the breakpoints and
// jumps that others have put into the process. False where there are not so many of a file.
bool ReadMappedFile(Pid pid, const std::vector<Mapping>& mappings, uint64_t address, void* buffer,
                    size_t bytes);

}  // namespace proftrace
