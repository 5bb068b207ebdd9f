#include "exporters/traces/chrome_python_rows.h"

#include <algorithm>

#include "exporters/sinks/escape.h"
#include "userspace/aggregate/python_text.h"

namespace proftrace {
namespace {

constexpr size_t kMaxNumbersBytes = 6 * kMaxNumberBytes + 160;

std::string FirstPart(const std::string& name) {
  return "{\"ph\": \"X\", \"cat\": \"python_function\", \"name\": \"" + JsonEscaped(name) +
         "\", \"pid\": ";
}

}  // namespace

ChromePythonRows::ChromePythonRows(const Timeline& timeline, const PythonRows& rows,
                                   const std::vector<std::string>& thread_parts,
                                   uint64_t first_number, TextWriter* writer)
    : timeline_(timeline),
      rows_(rows),
      thread_parts_(thread_parts),
      first_number_(first_number),
      writer_(*writer) {
  if (rows.size() == 0) return;
  for (const PythonCode& code : timeline.python_codes()) {
    code_parts_.push_back(FirstPart(PythonFunctionText(code)));
  }
  for (const PythonModule& module : timeline.python_modules()) {
    module_parts_.push_back(FirstPart(PythonModuleCallText(module)));
  }
}

void ChromePythonRows::Write(uint32_t index, const OpenSlices::Slice& slice) {
  const PythonRow& row = rows_.at(index);
  const PythonFrame& frame = timeline_.python_frame(row.frame);
  const std::string& first =
      frame.module == 0 ? code_parts_[frame.code] : module_parts_[frame.module - 1];
  const std::string& thread = thread_parts_[Raw(row.thread)];
  char* at = writer_.Reserve(kMaxNumbersBytes + first.size() + thread.size());
  at = PutText(at, first);
  at = PutText(at, thread);
  at = PutMicroseconds(at, slice.ts_ns);
  at = PutText(at, ", \"dur\": ");
  at = PutMicroseconds(at, slice.duration_ns);
  at = PutText(at, ", \"args\": {\"Python parent id\": ");
  at = row.parent_plus_1 == 0 ? PutText(at, "null") : PutInteger(at, row.parent_plus_1);
  at = PutText(at, ", \"Python id\": ");
  at = PutInteger(at, index + 1);
  if (frame.module != 0) {
    // The instance's number in its class, as in Kineto.
    at = PutText(at, ", \"Python module id\": ");
    at = PutInteger(at, timeline_.python_modules()[frame.module - 1].number);
  }
  at = PutText(at, ", \"Ev Idx\": ");
  at = PutInteger(at, first_number_ + index);
  at = PutText(at, "}},\n");
  writer_.Advance(at);
}

}  // namespace proftrace
