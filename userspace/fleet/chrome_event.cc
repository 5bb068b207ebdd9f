#include "userspace/fleet/chrome_event.h"

namespace proftrace {
namespace {

void WriteId(const SourceId& id, TextWriter* writer) {
  if (const int64_t* number = std::get_if<int64_t>(&id)) {
    writer->Integer(*number);
    return;
  }
  writer->Text("\"");
  writer->Text(std::get<std::string_view>(id));
  writer->Text("\"");
}

}  // namespace

void WriteChromeEvent(const ChromeEvent& of, TextWriter* writer) {
  const SourceEvent& event = of.event;
  const char phase[] = {event.phase};
  writer->Text("{\"ph\": \"");
  writer->Text({phase, 1});
  if (!event.category.empty()) {
    writer->Text("\", \"cat\": \"");
    writer->Text(event.category);
  }
  writer->Text("\", \"name\": \"");
  writer->Text(event.name);
  writer->Text("\", \"pid\": ");
  WriteId(of.pid, writer);
  writer->Text(", \"tid\": ");
  WriteId(of.tid, writer);
  if (event.begin_ns) {
    writer->Text(", \"ts\": ");
    writer->Microseconds(*event.begin_ns - of.base_ns);
  }
  if (event.phase == 'X') {
    writer->Text(", \"dur\": ");
    writer->Microseconds(event.duration_ns);
  }
  if (of.id) {
    writer->Text(", \"id\": ");
    writer->Unsigned(*of.id);
  } else if (event.id) {
    writer->Text(", \"id\": ");
    WriteId(*event.id, writer);
  }
  if (!event.others.empty()) {
    writer->Text(", ");
    writer->Text(event.others);
  }
  if (!event.args.empty()) {
    writer->Text(", \"args\": ");
    writer->Text(event.args);
  }
  writer->Text("}");
}

}  // namespace proftrace
