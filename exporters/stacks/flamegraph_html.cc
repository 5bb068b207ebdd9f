#include "exporters/stacks/flamegraph_html.h"

#include <string>
#include <string_view>
#include <vector>

#include "exporters/sinks/escape.h"
#include "exporters/sinks/json_writer.h"
#include "exporters/sinks/text_writer.h"
#include "exporters/stacks/flamegraph_page.h"

namespace proftrace {
namespace {

// Returns the inside of a JSON string that is safe inside <script>.
std::string ScriptText(std::string_view text) { return ScriptSafe(JsonEscaped(text)); }

std::string Subtitle(const Timeline& timeline) {
  std::string subtitle;
  for (const Target& target : timeline.info().targets) {
    if (!subtitle.empty()) subtitle += ", ";
    subtitle += "PID " + std::to_string(Raw(target.pid));
    if (!target.comm.empty()) subtitle += " (" + target.comm + ")";
  }
  return subtitle;
}

// Writes "title": … and the other members about a recording.
void WriteFields(const RecordingWords& words, JsonStream* json) {
  json->Key("title").Word(ScriptText(words.title));
  json->Key("subtitle").Word(ScriptText(words.subtitle));
  json->Key("window_ns").Integer(words.window_ns);
  json->Key("incomplete").Integer(words.incomplete_spans);
  json->Key("lost").Bool(words.any_loss);
  json->Key("steps");
  if (words.steps.has_value()) {
    json->Decimal(*words.steps, 6);
  } else {
    json->Null();
  }
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
    json_.BeginObject();
    WriteFields(words, &json_);
    json_.Key("first").Integer(first);
    // The frames, and for each its FrameKind.
    List("frames", stacks.frames.size(),
         [&](size_t i) { json_.Word(ScriptText(stacks.frames[i].name)); });
    List("kinds", stacks.frames.size(),
         [&](size_t i) { json_.Integer(static_cast<uint32_t>(stacks.frames[i].kind)); });
    // One flat list with parent, frame and count of each node. The root is left out; it is parent
    // 0.
    List("nodes", stacks.nodes.size() - 1, [&](size_t i) {
      const StackNode& node = stacks.nodes[i + 1];
      json_.Integer(node.parent);
      json_.Integer(node.frame);
      json_.Integer(node.count);
    });
    List("weights", stacks.values.size(), [&](size_t i) {
      const StackWeightInfo& info = InfoOf(stacks.values[i].weight);
      json_.BeginObject();
      json_.Key("name").Word(info.name);
      json_.Key("title").Word(info.title);
      json_.Key("unit").Word(UnitName(info.unit));
      json_.EndObject();
    });
    Values(stacks.values);
  }

  void Before(const RecordingWords& words, const StackDiff& diff) {
    json_.Line().Key("before").BeginObject();
    WriteFields(words, &json_);
    List("counts", diff.before_counts.size() - 1,
         [&](size_t i) { json_.Integer(diff.before_counts[i + 1]); });
    Values(diff.before);
    json_.EndObject();
  }

  absl::Status Finish() {
    json_.EndObject();
    json_.Done().Text(kFlamegraphPageTail);
    return writer_.Flush();
  }

 private:
  template <typename Writer>
  void List(std::string_view name, size_t size, Writer&& write) {
    json_.Line().Key(name).BeginArray(JsonSpacing::kTight);
    for (size_t i = 0; i < size; ++i) write(i);
    json_.EndArray();
  }

  // Writes one list for each weight, with the nodes except the root.
  void Values(const std::vector<StackValues>& all) {
    List("values", all.size(), [&](size_t i) {
      json_.Line().BeginArray(JsonSpacing::kTight);
      for (size_t node = 1; node < all[i].self.size(); ++node) json_.Integer(all[i].self[node]);
      json_.EndArray();
    });
  }

  TextWriter writer_;
  JsonStream json_{writer_};
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
