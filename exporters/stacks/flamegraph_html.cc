#include "exporters/stacks/flamegraph_html.h"

#include <string>
#include <string_view>
#include <vector>

#include "exporters/sinks/escape.h"
#include "exporters/sinks/text_writer.h"
#include "exporters/stacks/flamegraph_page.h"

namespace proftrace {
namespace {

// Returns a JSON string that is safe inside <script>: without '<' no text can end the element or
// open a comment.
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

// Returns "title": … and the other fields, without the braces around them.
std::string Fields(const RecordingWords& words) {
  return "\"title\": " + ScriptString(words.title) +
         ", \"subtitle\": " + ScriptString(words.subtitle) +
         ", \"window_ns\": " + std::to_string(words.window_ns) +
         ", \"incomplete\": " + std::to_string(words.incomplete_spans) +
         ", \"lost\": " + (words.any_loss ? "true" : "false") + ", \"steps\": " +
         (words.steps.has_value() ? std::to_string(*words.steps) : std::string("null"));
}

std::string_view UnitName(StackUnit unit) {
  switch (unit) {
    case StackUnit::kNanoseconds:
      return "ns";
    case StackUnit::kBytes:
      return "bytes";
    case StackUnit::kCount:
      return "count";
  }
  return "count";
}

class PageWriter {
 public:
  explicit PageWriter(ByteSink& sink) : writer_(sink) {}

  void Start(const RecordingWords& words, const FoldedStacks& stacks, size_t first) {
    writer_.Text(kFlamegraphPageHead);
    writer_.Text("{" + Fields(words) + ", \"first\": " + std::to_string(first));
    // The frames, and for each its FrameKind.
    List("frames", stacks.frames.size(),
         [&](size_t i) { writer_.Text(ScriptString(stacks.frames[i].name)); });
    List("kinds", stacks.frames.size(),
         [&](size_t i) { writer_.Unsigned(static_cast<uint64_t>(stacks.frames[i].kind)); });
    // One flat list with parent, frame and count of each node. The root is left out; it is parent
    // 0.
    List("nodes", stacks.nodes.size() - 1, [&](size_t i) {
      const StackNode& node = stacks.nodes[i + 1];
      writer_.Unsigned(node.parent);
      writer_.Text(",");
      writer_.Unsigned(node.frame);
      writer_.Text(",");
      writer_.Unsigned(node.count);
    });
    List("weights", stacks.values.size(), [&](size_t i) {
      const StackWeightInfo& info = InfoOf(stacks.values[i].weight);
      writer_.Text("{\"name\": \"" + std::string(info.name) + "\", \"title\": \"" +
                   std::string(info.title) + "\", \"unit\": \"" + std::string(UnitName(info.unit)) +
                   "\"}");
    });
    Values(stacks.values);
  }

  void Before(const RecordingWords& words, const StackDiff& diff) {
    writer_.Text(",\n\"before\": {" + Fields(words));
    List("counts", diff.before_counts.size() - 1,
         [&](size_t i) { writer_.Unsigned(diff.before_counts[i + 1]); });
    Values(diff.before);
    writer_.Text("}");
  }

  absl::Status Finish() {
    writer_.Text("}");
    writer_.Text(kFlamegraphPageTail);
    return writer_.Flush();
  }

 private:
  template <typename Writer>
  void List(std::string_view name, size_t size, Writer&& write) {
    writer_.Text(",\n\"" + std::string(name) + "\": [");
    for (size_t i = 0; i < size; ++i) {
      if (i > 0) writer_.Text(",");
      write(i);
    }
    writer_.Text("]");
  }

  // Writes one list for each weight, with the nodes except the root.
  void Values(const std::vector<StackValues>& all) {
    List("values", all.size(), [&](size_t i) {
      writer_.Text("\n[");
      for (size_t node = 1; node < all[i].self.size(); ++node) {
        if (node > 1) writer_.Text(",");
        writer_.Integer(all[i].self[node]);
      }
      writer_.Text("]");
    });
  }

  TextWriter writer_;
};

}  // namespace

RecordingWords WordsOf(const Timeline& timeline, const Aggregates& aggregates) {
  RecordingWords words;
  words.title = timeline.info().trace_name;
  words.subtitle = Subtitle(timeline);
  words.window_ns = timeline.info().window.duration_ns;
  words.incomplete_spans = aggregates.key_averages.incomplete_spans;
  words.any_loss = timeline.any_loss() || !timeline.info().has_end;
  words.steps = StepsInWindow(timeline, aggregates.steps);
  return words;
}

absl::Status ExportFlamegraph(const RecordingWords& words, const FoldedStacks& stacks,
                              StackWeight first, ByteSink& sink) {
  const absl::StatusOr<const StackValues*> values = RecordedValues(stacks, first);
  if (!values.ok()) return values.status();
  PageWriter writer(sink);
  writer.Start(words, stacks, static_cast<size_t>(*values - stacks.values.data()));
  return writer.Finish();
}

absl::Status ExportFlamegraphDiff(const RecordingWords& words, const RecordingWords& before,
                                  const StackDiff& diff, StackWeight first, ByteSink& sink) {
  const absl::StatusOr<const StackValues*> values = RecordedValues(diff.after, first);
  if (!values.ok()) return values.status();
  PageWriter writer(sink);
  writer.Start(words, diff.after, static_cast<size_t>(*values - diff.after.values.data()));
  writer.Before(before, diff);
  return writer.Finish();
}

}  // namespace proftrace
