#include "exporters/memory_timeline.h"

#include <algorithm>
#include <string>

#include "exporters/escape.h"
#include "exporters/text_writer.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/saturating.h"

namespace proftrace {
namespace {

// torch's categories before Unknown, and the 0 in front.
constexpr std::string_view kKnownCategories = "[0, 0, 0, 0, 0, 0, 0, 0, ";

struct Device {
  uint8_t type = 0;
  int8_t index = -1;
};

// The one that export_memory_timeline() takes without being told: cuda:0 where there is one.
Device FindDevice(const Timeline& timeline) {
  Device device;
  const MemoryEventStore& events = timeline.memory_events();
  for (uint32_t i = 0; i < events.size(); ++i) {
    const MemoryEvent& event = events.at(i);
    if (!event.is_device()) continue;
    if (device.type != 0 && event.device_index >= device.index) continue;
    device = {event.device_type, event.device_index};
  }
  return device;
}

std::string DeviceText(const Device& device) {
  if (device.type == 0) return "CPU";
  return std::string(DeviceTypeName(device.type)) + " " + std::to_string(device.index);
}

absl::Status CheckRecorded(const Timeline& timeline) {
  if (timeline.has_memory()) return absl::OkStatus();
  return Fail(ExitCode::kUsage,
              "this recording has no memory events; record with --profile-memory");
}

// Calls visit(time_us, bytes) for each microsecond in which something changed, up to the first
// loss: what is allocated from there on is not known.
template <typename Visitor>
void ForEachPoint(const Timeline& timeline, const Device& device, Visitor&& visit) {
  const MemoryEventStore& events = timeline.memory_events();
  int64_t bytes = 0;
  int64_t time_us = 0;
  bool has_point = false;
  for (uint32_t i = 0; i < events.size(); ++i) {
    const MemoryEvent& event = events.at(i);
    const bool is_here =
        device.type == 0 ? event.is_cpu()
                         : event.device_type == device.type && event.device_index == device.index;
    if (event.kind != MemoryEventKind::kUsage || !is_here) continue;
    if (!event.total_known) break;
    const int64_t now_us = timeline.ToUnixNs(event.time_ns) / 1000;
    if (has_point && now_us != time_us) visit(time_us, bytes);
    has_point = true;
    time_us = now_us;
    bytes = SaturatingSum(bytes, event.bytes);
  }
  if (has_point) visit(time_us, bytes);
}

// The two lists of a timeline, comma separated.
template <typename Writer>
void WriteTimes(const Timeline& timeline, const Device& device, Writer& writer) {
  bool is_first = true;
  ForEachPoint(timeline, device, [&](int64_t time_us, int64_t) {
    if (!is_first) writer.Text(", ");
    is_first = false;
    writer.Integer(time_us);
  });
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
    (peak / MiB).toFixed(2) + " MiB above what was there at the start. Category of all bytes: Unknown." +
    (lost ? " Records were lost: the curve ends there." : "");
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

absl::Status ExportMemoryTimeline(const Timeline& timeline, ByteSink& sink) {
  if (absl::Status status = CheckRecorded(timeline); !status.ok()) return status;
  const Device device = FindDevice(timeline);
  TextWriter writer(sink);
  writer.Text("[[");
  WriteTimes(timeline, device, writer);
  writer.Text("], [");
  bool is_first = true;
  ForEachPoint(timeline, device, [&](int64_t, int64_t bytes) {
    if (!is_first) writer.Text(", ");
    is_first = false;
    writer.Text(kKnownCategories);
    writer.Integer(bytes);
    writer.Text("]");
  });
  writer.Text("]]\n");
  return writer.Flush();
}

absl::Status ExportMemoryTimelineHtml(const Timeline& timeline, ByteSink& sink) {
  if (absl::Status status = CheckRecorded(timeline); !status.ok()) return status;
  const Device device = FindDevice(timeline);
  TextWriter writer(sink);
  writer.Text(kPageHead);
  writer.Text("const device = \"" + DeviceText(device) + "\";\nconst lost = ");
  writer.Text(timeline.memory_summary().inconsistent_processes > 0 ? "true" : "false");
  writer.Text(";\nconst times = [");
  WriteTimes(timeline, device, writer);
  writer.Text("];\nconst sizes = [");
  bool is_first = true;
  ForEachPoint(timeline, device, [&](int64_t, int64_t bytes) {
    if (!is_first) writer.Text(",");
    is_first = false;
    writer.Integer(bytes);
  });
  writer.Text("];");
  writer.Text(kPageTail);
  return writer.Flush();
}

}  // namespace proftrace
