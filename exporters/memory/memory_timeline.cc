#include "exporters/memory/memory_timeline.h"

#include <string>

#include "exporters/sinks/json_writer.h"
#include "exporters/sinks/text_writer.h"
#include "userspace/aggregate/memory_curves.h"
#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

// The 0 in front, and torch's categories before Unknown.
constexpr int kItemsBeforeUnknown = 8;

// torch's numbers of actions and of the category Unknown in the raw form.
constexpr int kPreexisting = 1;
constexpr int kCreate = 2;
constexpr int kDestroy = 4;
constexpr int kUnknownCategory = 7;

// Returns the curve to write. Fails with kUsage where memory was not recorded, and as
// ChooseMemoryCurve() does.
absl::StatusOr<MemoryCurve> FindCurve(const Timeline& timeline, const std::string& device) {
  if (timeline.has_memory()) return ChooseMemoryCurve(timeline, device);
  return Fail(ExitCode::kUsage,
              "this recording has no memory events; record with --profile-memory");
}

// Calls visit(time_us, bytes) for the bytes that were there at the begin, and then for each
// microsecond in which these changed. Returns false where the curve ends before the recording,
// because the total became unknown.
template <typename Visitor>
bool ForEachPoint(const Timeline& timeline, const MemoryCurve& curve, Visitor&& visit) {
  const int64_t before = PreexistingBytes(timeline, curve);
  int64_t bytes = 0;
  int64_t time_us = 0;
  bool has_point = false;
  const bool is_whole =
      ForEachMemoryEvent(timeline, curve, [&](const MemoryEvent& event, int64_t total) {
        const int64_t now_us = timeline.ToUnixNs(event.time_ns) / 1000;
        if (!has_point && before > 0) visit(now_us, before);
        if (has_point && now_us != time_us) visit(time_us, bytes);
        has_point = true;
        time_us = now_us;
        bytes = total;
      });
  if (has_point) visit(time_us, bytes);
  return is_whole;
}

// Writes the first of the two lists of a timeline.
void WriteTimes(const Timeline& timeline, const MemoryCurve& curve, JsonStream* json) {
  json->BeginArray();
  ForEachPoint(timeline, curve, [json](int64_t time_us, int64_t) { json->Integer(time_us); });
  json->EndArray();
}

std::string CurveText(const MemoryCurve& curve) {
  return curve.DeviceText() + " of PID " + std::to_string(Raw(curve.pid));
}

// Returns a text with the other curves; empty: there are none.
std::string OthersText(const Timeline& timeline, const MemoryCurve& shown) {
  std::string text;
  for (const MemoryCurve& curve : MemoryCurves(timeline)) {
    if (curve != shown) text += (text.empty() ? "" : ", ") + CurveText(curve);
  }
  return text;
}

constexpr std::string_view kPageHead = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Memory timeline</title>
<style>body{font:14px sans-serif;margin:16px}canvas{width:100%;height:70vh}</style></head><body>
<h1>Memory timeline</h1><p id="what"></p><canvas id="plot"></canvas>
<script>
)";

constexpr std::string_view kPageTail = R"(
const what = document.getElementById("what");
const peak = sizes.reduce((most, size) => Math.max(most, size), 0);
const MiB = 1048576;
what.textContent = device + ": " + times.length + " points, most allocated " +
    (peak / MiB).toFixed(2) + " MiB" + (absolute ? "" : " above what was there at the start") +
    ". Category of all bytes: Unknown." + (lost ? " Records were lost: the curve ends there." : "") +
    (others ? " Not shown: " + others + "." : "");
function draw() {
  const canvas = document.getElementById("plot");
  const width = canvas.width = canvas.clientWidth, height = canvas.height = canvas.clientHeight;
  const context = canvas.getContext("2d");
  if (!times.length) return;
  const left = 90, bottom = 40;
  const low = sizes.reduce((least, size) => Math.min(least, size), 0);
  const span = Math.max(1, times[times.length - 1] - times[0]);
  const x = time => left + (time - times[0]) / span * (width - left - 10);
  const y = size => height - bottom - (size - low) / Math.max(1, peak - low) * (height - bottom - 10);
  context.fillStyle = "#9aa5b1";
  let level = 0;
  for (let i = 0; i < times.length; i++) {
    const from = x(times[i]), to = i + 1 < times.length ? x(times[i + 1]) : width - 10;
    level = sizes[i];
    context.fillRect(from, Math.min(y(level), y(0)), Math.max(0.5, to - from), Math.abs(y(0) - y(level)));
  }
  context.fillStyle = "#222";
  for (let i = 0; i <= 4; i++) {
    const size = low + (peak - low) * i / 4;
    context.fillText((size / MiB).toFixed(2) + " MiB", 4, y(size) + 4);
    context.fillText((span * i / 4 / 1000).toFixed(1) + " ms", left + (width - left - 60) * i / 4, height - 12);
  }
}
addEventListener("resize", draw);
draw();
</script></body></html>
)";

}  // namespace

absl::Status ExportMemoryTimeline(const Timeline& timeline, const std::string& device,
                                  ByteSink& sink) {
  const absl::StatusOr<MemoryCurve> curve = FindCurve(timeline, device);
  if (!curve.ok()) return curve.status();
  TextWriter writer(sink);
  JsonStream json(writer);
  json.BeginArray();
  WriteTimes(timeline, *curve, &json);
  json.BeginArray();
  ForEachPoint(timeline, *curve, [&json](int64_t, int64_t bytes) {
    json.BeginArray();
    for (int i = 0; i < kItemsBeforeUnknown; ++i) json.Integer(0);
    json.Integer(bytes);
    json.EndArray();
  });
  json.EndArray();
  json.EndArray();
  json.EndLine();
  return json.Done().Flush();
}

absl::Status ExportMemoryTimelineRaw(const Timeline& timeline, const std::string& device,
                                     ByteSink& sink) {
  const absl::StatusOr<MemoryCurve> curve = FindCurve(timeline, device);
  if (!curve.ok()) return curve.status();
  TextWriter writer(sink);
  JsonStream json(writer);
  const auto write = [&json](int64_t time_ns, int action, int64_t bytes) {
    json.BeginArray();
    json.Integer(time_ns);
    json.Integer(action);
    json.Integer(bytes);
    json.Integer(kUnknownCategory);
    json.EndArray();
  };
  json.BeginArray();
  if (const int64_t before = PreexistingBytes(timeline, *curve); before > 0) {
    write(-1, kPreexisting, before);
  }
  ForEachMemoryEvent(timeline, *curve, [&](const MemoryEvent& event, int64_t) {
    write(timeline.ToUnixNs(event.time_ns), event.bytes < 0 ? kDestroy : kCreate, event.bytes);
  });
  json.EndArray();
  json.EndLine();
  return json.Done().Flush();
}

absl::Status ExportMemoryTimelineHtml(const Timeline& timeline, const std::string& device,
                                      ByteSink& sink) {
  const absl::StatusOr<MemoryCurve> curve = FindCurve(timeline, device);
  if (!curve.ok()) return curve.status();
  const bool is_whole = ForEachPoint(timeline, *curve, [](int64_t, int64_t) {});
  TextWriter writer(sink);
  writer.Text(kPageHead);
  // Each value is JSON, which is JavaScript too.
  writer.Text("const device = ");
  JsonStream(writer).String(CurveText(*curve));
  writer.Text(";\nconst others = ");
  JsonStream(writer).String(OthersText(timeline, *curve));
  writer.Text(";\nconst absolute = ");
  JsonStream(writer).Bool(curve->device_type != 0);
  writer.Text(";\nconst lost = ");
  JsonStream(writer).Bool(!is_whole);
  writer.Text(";\nconst times = ");
  JsonStream json(writer);
  WriteTimes(timeline, *curve, &json);
  writer.Text(";\nconst sizes = ");
  JsonStream sizes(writer);
  sizes.BeginArray(JsonSpacing::kTight);
  ForEachPoint(timeline, *curve, [&sizes](int64_t, int64_t bytes) { sizes.Integer(bytes); });
  sizes.EndArray();
  writer.Text(";");
  writer.Text(kPageTail);
  return writer.Flush();
}

std::string MemoryTimelineNote(const Timeline& timeline, const std::string& device) {
  const absl::StatusOr<MemoryCurve> curve = FindCurve(timeline, device);
  if (!curve.ok() || MemoryCurves(timeline).empty()) return "";
  const std::string others = OthersText(timeline, *curve);
  return CurveText(*curve) +
         (others.empty() ? "" : "; left out: " + others + " (--device and --pid choose)");
}

}  // namespace proftrace
