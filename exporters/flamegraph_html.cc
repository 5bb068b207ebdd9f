#include "exporters/flamegraph_html.h"

#include <string>

#include "exporters/escape.h"
#include "exporters/flamegraph_page.h"
#include "exporters/text_writer.h"

namespace proftrace {
namespace {

// A JSON string that is safe inside <script>: without '<' no text can end the element or open a
// comment.
std::string ScriptString(std::string_view text) {
  const std::string escaped = JsonEscaped(text);
  std::string safe = "\"";
  for (const char c : escaped) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe.push_back(c);
    }
  }
  safe.push_back('"');
  return safe;
}

std::string Subtitle(const Timeline& timeline) {
  std::string subtitle;
  for (const Target& target : timeline.info().targets) {
    if (!subtitle.empty()) subtitle += ", ";
    subtitle += "PID " + std::to_string(Raw(target.pid));
    if (!target.comm.empty()) subtitle += " (" + target.comm + ")";
  }
  return subtitle;
}

}  // namespace

absl::Status ExportFlamegraph(const Timeline& timeline, const FoldedStacks& stacks,
                              uint64_t incomplete_spans, ByteSink& sink) {
  TextWriter writer(sink);
  writer.Text(kFlamegraphPageHead);
  writer.Text("{\"title\": " + ScriptString(timeline.info().trace_name) +
              ", \"subtitle\": " + ScriptString(Subtitle(timeline)) +
              ", \"window_ns\": " + std::to_string(timeline.info().window.duration_ns) +
              ", \"incomplete\": " + std::to_string(incomplete_spans) + ", \"lost\": " +
              (timeline.any_loss() || !timeline.info().has_end ? "true" : "false") +
              ",\n\"frames\": [");
  for (size_t i = 0; i < stacks.frames.size(); ++i) {
    writer.Text(i == 0 ? "\n" : ",\n");
    writer.Text(ScriptString(stacks.frames[i]));
  }
  // Flat: parent, frame, self ns, count of each node; the root is not among them and is parent 0.
  writer.Text("],\n\"nodes\": [");
  for (size_t i = 1; i < stacks.nodes.size(); ++i) {
    const StackNode& node = stacks.nodes[i];
    writer.Text(i == 1 ? "\n" : ",\n");
    writer.Unsigned(node.parent);
    writer.Text(",");
    writer.Unsigned(node.frame);
    writer.Text(",");
    writer.Integer(node.self_ns);
    writer.Text(",");
    writer.Unsigned(node.count);
  }
  writer.Text("]}");
  writer.Text(kFlamegraphPageTail);
  return writer.Flush();
}

}  // namespace proftrace
