#include "userspace/fleet/chrome_event.h"

namespace proftrace {
namespace {

void WriteId(const SourceId& id, JsonStream* json) {
  if (const int64_t* number = std::get_if<int64_t>(&id)) {
    json->Integer(*number);
  } else {
    json->Word(std::get<std::string_view>(id));
  }
}

}  // namespace

void WriteChromeEvent(const ChromeEvent& of, JsonStream* json) {
  const SourceEvent& event = of.event;
  json->BeginObject();
  json->Key("ph").Word({&event.phase, 1});
  if (!event.category.empty()) json->Key("cat").Word(event.category);
  json->Key("name").Word(event.name);
  json->Key("pid");
  WriteId(of.pid, json);
  json->Key("tid");
  WriteId(of.tid, json);
  if (event.begin_ns) json->Key("ts").Microseconds(*event.begin_ns - of.base_ns);
  if (event.phase == 'X') json->Key("dur").Microseconds(event.duration_ns);
  if (of.id) {
    json->Key("id").Integer(*of.id);
  } else if (event.id) {
    json->Key("id");
    WriteId(*event.id, json);
  }
  json->Members(event.others);
  if (!event.args.empty()) json->Key("args").Raw(event.args);
  json->EndObject();
}

}  // namespace proftrace
