#include "exporters/speedscope.h"

#include <string>
#include <vector>

#include "exporters/escape.h"
#include "exporters/text_writer.h"

namespace proftrace {
namespace {

std::string Quoted(const std::string& text) { return "\"" + JsonEscaped(text) + "\""; }

void WriteFrames(const Timeline& timeline, const FoldedStacks& stacks, TextWriter& writer) {
  for (uint32_t frame = 0; frame < stacks.frames.size(); ++frame) {
    writer.Text(frame == 0 ? "\n" : ",\n");
    writer.Text("{\"name\": " + Quoted(stacks.frames[frame]));
    if (const PythonCode* code = CodeOf(timeline, stacks, frame); code != nullptr) {
      writer.Text(", \"file\": " + Quoted(code->file) + ", \"line\": ");
      writer.Integer(code->first_line);
    }
    writer.Text("}");
  }
}

}  // namespace

absl::Status ExportSpeedscope(const Timeline& timeline, const FoldedStacks& stacks,
                              ByteSink& sink) {
  TextWriter writer(sink);
  writer.Text(
      "{\"$schema\": \"https://www.speedscope.app/file-format-schema.json\",\n\"exporter\": ");
  writer.Text(Quoted("proftrace " + timeline.info().proftrace_version));
  writer.Text(",\n\"name\": " + Quoted(timeline.info().trace_name));
  writer.Text(",\n\"activeProfileIndex\": 0,\n\"shared\": {\"frames\": [");
  WriteFrames(timeline, stacks, writer);
  writer.Text("]},\n\"profiles\": [{\"type\": \"sampled\", \"name\": \"self CPU time\", ");
  writer.Text("\"unit\": \"nanoseconds\", \"startValue\": 0, \"endValue\": ");
  writer.Integer(stacks.nodes[0].total_ns);
  writer.Text(",\n\"samples\": [");
  bool is_first = true;
  for (uint32_t node = 1; node < stacks.nodes.size(); ++node) {
    if (stacks.nodes[node].self_ns == 0) continue;
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
    if (stacks.nodes[node].self_ns == 0) continue;
    if (!is_first) writer.Text(",");
    is_first = false;
    writer.Integer(stacks.nodes[node].self_ns);
  }
  writer.Text("]}]}\n");
  return writer.Flush();
}

}  // namespace proftrace
