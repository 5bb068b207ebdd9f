#include "exporters/traces/chrome_rows.h"

namespace proftrace {
namespace {

// Writes the row up to the value of its arg.
void BeginTrackRow(std::string_view row, std::string_view key, const ChromePlace& place,
                   JsonStream* json) {
  json->BeginObject();
  json->Key("name").Word(row);
  json->Key("ph").Word("M");
  json->Key("ts").Microseconds(place.ts_ns);
  json->Key("pid").Integer(place.pid);
  json->Key("tid").Integer(place.tid);
  json->Key("args").BeginObject();
  json->Key(key);
}

void EndTrackRow(JsonStream* json) {
  json->EndObject();
  json->EndObject();
  json->Done().Text(kChromeRowEnd);
}

}  // namespace

void WriteTrackText(std::string_view row, std::string_view key, std::string_view text,
                    const ChromePlace& place, TextWriter* writer) {
  JsonStream json(*writer);
  BeginTrackRow(row, key, place, &json);
  json.String(text);
  EndTrackRow(&json);
}

void WriteTrackNumber(std::string_view row, std::string_view key, int64_t number,
                      const ChromePlace& place, TextWriter* writer) {
  JsonStream json(*writer);
  BeginTrackRow(row, key, place, &json);
  json.Integer(number);
  EndTrackRow(&json);
}

void WriteFlow(std::string_view category, uint64_t id, bool is_start, const ChromePlace& place,
               TextWriter* writer) {
  JsonRow row(ReservedText(writer, 4 * kMaxNumberBytes + 2 * category.size() + 128));
  row.BeginObject();
  row.Key("ph").Word(is_start ? "s" : "f");
  row.Key("id").Integer(id);
  row.Key("pid").Integer(place.pid);
  row.Key("tid").Integer(place.tid);
  row.Key("ts").Microseconds(place.ts_ns);
  row.Key("cat").Word(category);
  row.Key("name").Word(category);
  if (!is_start) row.Key("bp").Word("e");
  row.EndObject();
  row.Done().Commit(kChromeRowEnd);
}

}  // namespace proftrace
