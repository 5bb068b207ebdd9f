// I/O by file: what `report --by-file` shows. Files, directories, pipes and sockets are told apart
// by their names (SystemFile::name), over all processes.
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
  uint64_t calls = 0;   // all that do I/O, with the ones above and requests of io_uring
  uint64_t errors = 0;  // of them
  // Bytes as the kernel returned them, not as they were asked for. What a call moves from one file
  // to another counts for both; the file that it moves to is known by its descriptor alone, and has
  // a row of its own, "fd 7 of PID 4711".
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;
  int64_t time_ns = 0;     // in `calls`; requests overlap with all else
  int64_t off_cpu_ns = 0;  // of the time in calls; 0 where it was not recorded
  int64_t longest_ns = 0;
  uint64_t page_ins = 0;  // faults that read from it
  int64_t page_in_ns = 0;
};

// Sums up files, the longest time first; ties by name. Calls without a file or path are left out.
// `windows`: also sums up what began in each into `shares`: calls, their time, bytes read and bytes
// written.
std::vector<FileIo> SumFileIo(const Timeline& timeline, const StepWindows* windows = nullptr,
                              std::vector<WindowShare>* shares = nullptr);

}  // namespace proftrace
