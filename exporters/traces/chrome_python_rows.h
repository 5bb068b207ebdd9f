// Writes the python_function rows of the chrome trace, as Kineto has them: "file.py(12): f", or
// "nn.Module: Linear_0" for the call of an nn.Module.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exporters/sinks/text_writer.h"
#include "exporters/traces/open_slices.h"
#include "userspace/aggregate/python_rows.h"
#include "userspace/model/timeline.h"

namespace proftrace {

class ChromePythonRows {
 public:
  // All arguments must outlive this. `thread_parts`: for each thread the members with its process
  // and its number. `first_number`: the "Ev Idx" of the first row.
  ChromePythonRows(const Timeline& timeline, const PythonRows& rows,
                   const std::vector<std::string>& thread_parts, uint64_t first_number,
                   TextWriter* writer);

  void Write(uint32_t index, const OpenSlices::Slice& slice);

 private:
  const Timeline& timeline_;
  const PythonRows& rows_;
  const std::vector<std::string>& thread_parts_;
  uint64_t first_number_;
  TextWriter& writer_;
  std::vector<std::string> code_parts_;    // the members before the process, by code
  std::vector<std::string> module_parts_;  // the members before the process, by module
};

}  // namespace proftrace
