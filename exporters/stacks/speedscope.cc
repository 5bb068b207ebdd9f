#include "exporters/stacks/speedscope.h"

#include <string>
#include <string_view>
#include <vector>

#include "exporters/sinks/json_writer.h"
#include "exporters/sinks/text_writer.h"

namespace proftrace {
namespace {

// Returns the unit as in speedscope's FileFormat.ValueUnit.
std::string_view ValueUnit(StackUnit unit) {
  switch (unit) {
    case StackUnit::kNanoseconds:
      return "nanoseconds";
    case StackUnit::kBytes:
      return "bytes";
    case StackUnit::kCount:
      return "none";
  }
  return "none";
}

void WriteFrames(const FoldedStacks& stacks, JsonStream* json) {
  json->BeginArray();
  for (const StackFrame& frame : stacks.frames) {
    json->Line().BeginObject();
    json->Key("name").String(frame.name);
    if (!frame.file.empty()) {
      json->Key("file").String(frame.file);
      json->Key("line").Integer(frame.line);
    }
    json->EndObject();
  }
  json->EndArray();
}

void WriteProfile(const FoldedStacks& stacks, const StackValues& values, JsonStream* json) {
  const StackWeightInfo& info = InfoOf(values.weight);
  json->BeginObject();
  json->Key("type").Word("sampled");
  json->Key("name").String(info.title);
  json->Key("unit").Word(ValueUnit(info.unit));
  json->Key("startValue").Integer(0);
  json->Key("endValue").Integer(values.total);
  json->Line().Key("samples").BeginArray();
  for (uint32_t node = 1; node < stacks.nodes.size(); ++node) {
    if (values.self[node] == 0) continue;
    json->Line().BeginArray(JsonSpacing::kTight);
    const std::vector<uint32_t> path = PathOf(stacks, node);
    for (size_t i = path.size(); i-- > 0;) json->Integer(stacks.nodes[path[i]].frame);
    json->EndArray();
  }
  json->EndArray();
  json->Line().Key("weights").BeginArray(JsonSpacing::kTight);
  for (uint32_t node = 1; node < stacks.nodes.size(); ++node) {
    if (values.self[node] != 0) json->Integer(values.self[node]);
  }
  json->EndArray();
  json->EndObject();
}

}  // namespace

absl::Status ExportSpeedscope(const Timeline& timeline, const FoldedStacks& stacks,
                              StackWeight first, ByteSink& sink) {
  const absl::StatusOr<const StackValues*> shown_first = RecordedValues(stacks, first);
  if (!shown_first.ok()) return shown_first.status();
  TextWriter writer(sink);
  JsonStream json(writer);
  json.BeginObject();
  json.Key("$schema").Word("https://www.speedscope.app/file-format-schema.json");
  json.Line().Key("exporter").String("proftrace " + timeline.info().proftrace_version);
  json.Line().Key("name").String(timeline.info().trace_name);
  json.Line().Key("activeProfileIndex").Integer(*shown_first - stacks.values.data());
  json.Line().Key("shared").BeginObject();
  json.Key("frames");
  WriteFrames(stacks, &json);
  json.EndObject();
  json.Line().Key("profiles").BeginArray();
  for (size_t i = 0; i < stacks.values.size() && writer.ok(); ++i) {
    if (i > 0) json.Line();
    WriteProfile(stacks, stacks.values[i], &json);
  }
  json.EndArray();
  json.EndObject();
  json.EndLine();
  return json.Done().Flush();
}

}  // namespace proftrace
