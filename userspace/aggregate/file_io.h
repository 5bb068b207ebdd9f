// I/O by file: what `report --by-file` shows. Files, directories, pipes and sockets with the same
// name (SystemFile::name) are one row, over all processes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "userspace/aggregate/step_windows.h"
#include "userspace/model/timeline.h"

namespace proftrace {

struct FileIo {
  std::string name;
  SystemFileKind kind = SystemFileKind::kOther;
  uint64_t opens = 0;  // that succeeded
  uint64_t reads = 0;
  uint64_t writes = 0;
  uint64_t calls = 0;   // all calls that do I/O, those above and io_uring's requests included
  uint64_t errors = 0;  // calls that failed
  // Bytes as the kernel returned them, not as they were requested. Bytes that a call moves from one
  // file to another count for both. The file that they move to is known by its descriptor alone, so
  // it has a row of its own, "fd 7 of PID 4711".
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;
  int64_t time_ns = 0;     // in `calls`; requests may overlap with any other calls
  int64_t off_cpu_ns = 0;  // part of the time in calls; 0 where the scheduler was not recorded
  int64_t longest_ns = 0;
  uint64_t page_ins = 0;  // page faults that read from the file
  int64_t page_in_ns = 0;
};

// Sums up files, the longest time first; ties by name. Calls without a file or path are left out.
// With `windows`, also sums up the calls that began in each window into `shares`: calls, their
// time, bytes read and bytes written.
std::vector<FileIo> SumFileIo(const Timeline& timeline, const StepWindows* windows = nullptr,
                              std::vector<WindowShare>* shares = nullptr);

}  // namespace proftrace
