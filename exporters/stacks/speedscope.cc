#include "exporters/stacks/speedscope.h"

#include <string>
#include <string_view>
#include <vector>

#include "exporters/sinks/escape.h"
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

void WriteFrames(const FoldedStacks& stacks, TextWriter& writer) {
  for (size_t frame = 0; frame < stacks.frames.size(); ++frame) {
    const StackFrame& shown = stacks.frames[frame];
    writer.Text(frame == 0 ? "\n" : ",\n");
    writer.Text("{\"name\": " + JsonQuoted(shown.name));
    if (!shown.file.empty()) {
      writer.Text(", \"file\": " + JsonQuoted(shown.file) + ", \"line\": ");
      writer.Integer(shown.line);
    }
    writer.Text("}");
  }
}

void WriteProfile(const FoldedStacks& stacks, const StackValues& values, TextWriter& writer) {
  const StackWeightInfo& info = InfoOf(values.weight);
  writer.Text("{\"type\": \"sampled\", \"name\": " + JsonQuoted(std::string(info.title)));
  writer.Text(", \"unit\": " + JsonQuoted(std::string(ValueUnit(info.unit))));
  writer.Text(", \"startValue\": 0, \"endValue\": ");
  writer.Integer(values.total);
  writer.Text(",\n\"samples\": [");
  bool is_first = true;
  for (uint32_t node = 1; node < stacks.nodes.size(); ++node) {
    if (values.self[node] == 0) continue;
    writer.Text(is_first ? "\n[" : ",\n[");
    is_first = false;
    const std::vector<uint32_t> path = PathOf(stacks, node);
    for (size_t i = path.size(); i-- > 0;) {
      writer.Unsigned(stacks.nodes[path[i]].frame);
      if (i > 0) writer.Text(",");
    }
    writer.Text("]");
  }
  writer.Text("],\n\"weights\": [");
  is_first = true;
  for (uint32_t node = 1; node < stacks.nodes.size(); ++node) {
    if (values.self[node] == 0) continue;
    if (!is_first) writer.Text(",");
    is_first = false;
    writer.Integer(values.self[node]);
  }
  writer.Text("]}");
}

}  // namespace

absl::Status ExportSpeedscope(const Timeline& timeline, const FoldedStacks& stacks,
                              StackWeight first, ByteSink& sink) {
  const absl::StatusOr<const StackValues*> shown_first = RecordedValues(stacks, first);
  if (!shown_first.ok()) return shown_first.status();
  TextWriter writer(sink);
  writer.Text(
      "{\"$schema\": \"https://www.speedscope.app/file-format-schema.json\",\n\"exporter\": ");
  writer.Text(JsonQuoted("proftrace " + timeline.info().proftrace_version));
  writer.Text(",\n\"name\": " + JsonQuoted(timeline.info().trace_name));
  writer.Text(",\n\"activeProfileIndex\": ");
  writer.Integer(*shown_first - stacks.values.data());
  writer.Text(",\n\"shared\": {\"frames\": [");
  WriteFrames(stacks, writer);
  writer.Text("]},\n\"profiles\": [");
  for (size_t i = 0; i < stacks.values.size() && writer.ok(); ++i) {
    if (i > 0) writer.Text(",\n");
    WriteProfile(stacks, stacks.values[i], writer);
  }
  writer.Text("]}\n");
  return writer.Flush();
}

}  // namespace proftrace
