#include "exporters/traces/chrome_python_rows.h"

#include <algorithm>

#include "exporters/sinks/json_writer.h"
#include "exporters/traces/chrome_rows.h"
#include "userspace/aggregate/python_text.h"

namespace proftrace {
namespace {

constexpr size_t kMaxNumbersBytes = 6 * kMaxNumberBytes + 160;

// Returns the members of a row before its process.
std::string FirstPart(const std::string& name) {
  JsonText json(StringText(), JsonSpacing::kSpaced, JsonRoot::kMembers);
  json.Key("ph").Word("X");
  json.Key("cat").Word("python_function");
  json.Key("name").String(name);
  return json.Done().Take();
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
  JsonRow json(ReservedText(&writer_, kMaxNumbersBytes + first.size() + thread.size()));
  json.BeginObject();
  json.Members(first);
  json.Members(thread);
  json.Key("ts").Microseconds(slice.ts_ns);
  json.Key("dur").Microseconds(slice.duration_ns);
  json.Key("args").BeginObject();
  json.Key("Python parent id");
  if (row.parent_plus_1 == 0) {
    json.Null();
  } else {
    json.Integer(row.parent_plus_1);
  }
  json.Key("Python id").Integer(index + 1);
  if (frame.module != 0) {
    // The instance's number in its class, as in Kineto.
    json.Key("Python module id").Integer(timeline_.python_modules()[frame.module - 1].number);
  }
  json.Key("Ev Idx").Integer(first_number_ + index);
  json.EndObject();
  json.EndObject();
  json.Done().Commit(kChromeRowEnd);
}

}  // namespace proftrace
