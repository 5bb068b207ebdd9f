// What must hold of every timeline, whatever bytes it came from. Aborts where it does not.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "exporters/formats.h"
#include "exporters/sinks/output_file.h"
#include "exporters/text/why_text.h"
#include "nlohmann/json.hpp"
#include "userspace/base/guarded_folder.h"
#include "userspace/base/saturating.h"
#include "userspace/model/timeline.h"
#include "userspace/why/verdict.h"

namespace proftrace {

inline void Require(bool condition, const char* what, uint32_t span = 0) {
  if (condition) return;
  std::fprintf(stderr, "invariant broken: %s (span %u)\n", what, span);
  std::abort();
}

inline void CheckTimeline(const Timeline& timeline) {
  const Ledger& ledger = timeline.ledger();
  Require(ledger.ConservationHolds(), "conservation");
  Require(ledger.begins == timeline.span_count(), "a span for each begin");
  std::vector<int64_t> children_ns(timeline.span_count());
  std::vector<bool> has_overlap(timeline.span_count());
  std::vector<int64_t> last_end_ns(timeline.span_count());
  for (uint32_t i = 0; i < timeline.span_count(); ++i) {
    const Span& span = timeline.span(SpanId{i});
    Require(i == 0 || timeline.span(SpanId{i - 1}).start_ns <= span.start_ns, "order of starts", i);
    Require(span.duration_ns >= 0 && span.self_ns <= span.duration_ns, "self <= duration", i);
    Require(!span.is_apart || (span.parent == kNoSpan && span.self_ns == 0), "a row apart", i);
    Require(Raw(span.thread) < timeline.threads().size(), "thread", i);
    Require(Raw(span.label) < timeline.labels().size(), "label", i);
    Require(Raw(span.path) < timeline.paths().size(), "path", i);
    if (span.parent == kNoSpan) {
      Require(span.depth == 0, "depth of a root", i);
      continue;
    }
    Require(Raw(span.parent) < i, "a parent before its children", i);
    const Span& parent = timeline.span(span.parent);
    Require(parent.thread == span.thread, "a parent on the same thread", i);
    Require(span.depth == parent.depth + 1 || span.depth == UINT16_MAX, "depth", i);
    Require(parent.start_ns <= span.start_ns, "a child begins later", i);
    // Rows beside each other that overlap: calls of CUDA, whose time does not count twice, and rows
    // whose shared time is each one's own, as in torch (merge/call_tree.h).
    int64_t& end_ns = last_end_ns[Raw(span.parent)];
    if (span.start_ns < end_ns) has_overlap[Raw(span.parent)] = true;
    end_ns = std::max(end_ns, span.end_ns());
    if (span.overlaps) {
      has_overlap[Raw(span.parent)] = true;
    } else {
      Require(span.end_ns() <= parent.end_ns(), "a child ends earlier", i);
      children_ns[Raw(span.parent)] += span.duration_ns;
    }
  }
  for (uint32_t i = 0; i < timeline.span_count(); ++i) {
    const Span& span = timeline.span(SpanId{i});
    if (has_overlap[i] || span.is_apart) continue;
    Require(span.self_ns >= 0, "own time", i);
    Require(span.self_ns == span.duration_ns - children_ns[i], "self times add up", i);
  }
}

// What must hold of device activities.
inline void CheckDevices(const Timeline& timeline) {
  const DeviceLedger& ledger = timeline.device_ledger();
  Require(ledger.ConservationHolds(), "conservation of device records");
  const DeviceActivityStore& activities = timeline.device_activities();
  int64_t work_ns = 0;
  for (uint32_t i = 0; i < activities.size(); ++i) {
    const DeviceActivity& activity = activities.at(i);
    Require(activity.duration_ns >= 0, "durations", i);
    Require(i == 0 || activities.at(i - 1).start_ns <= activity.start_ns, "order of time", i);
    Require(Raw(activity.name) < timeline.device_names().size(), "name", i);
    for (const SpanId span : {activity.call, activity.op, activity.annotation}) {
      Require(span == kNoSpan || Raw(span) < timeline.span_count(), "link", i);
    }
    if (activity.kind == DeviceActivityKind::kKernel) {
      Require(activity.kernel < timeline.kernels().size(), "kernel", i);
    }
    if (IsDeviceWork(activity.kind) && activity.op != kNoSpan) {
      work_ns = SaturatingSum(work_ns, activity.duration_ns);
    }
  }
  int64_t charged_ns = 0;
  for (uint32_t i = 0; i < timeline.span_count(); ++i) {
    charged_ns = SaturatingSum(charged_ns, timeline.columns().device_ns.at(SpanId{i}));
  }
  Require(charged_ns == work_ns, "all work of operators is charged to one");
}

// What must hold of system activity.
inline void CheckSystem(const Timeline& timeline) {
  int64_t last_ns = INT64_MIN;
  for (uint32_t i = 0; i < timeline.system_event_count(); ++i) {
    const SystemEvent& event = timeline.system_event(i);
    Require(event.duration_ns >= 0, "durations", i);
    Require(event.start_ns >= last_ns, "order of time", i);
    last_ns = event.start_ns;
    Require(Raw(event.thread) < timeline.threads().size(), "thread", i);
    Require(event.span == kNoSpan || Raw(event.span) < timeline.span_count(), "span", i);
    Require(event.around == kNoSystemEvent || event.around < i, "an event around it", i);
    Require((event.around == kNoSystemEvent) == (event.depth == 0), "depth of an event", i);
    if (event.kind == SystemKind::kOffCpu) {
      Require(event.off_cpu.run_queue_ns >= 0 && event.off_cpu.run_queue_ns <= event.duration_ns,
              "time in the queue", i);
    }
  }
  for (uint32_t i = 0; i < timeline.span_count(); ++i) {
    const SpanSystem system = timeline.columns().system.at(SpanId{i});
    Require(system.self_off_cpu_ns >= 0 && system.self_off_cpu_ns <= system.off_cpu_ns,
            "self time off the CPU", i);
    Require(system.run_queue_ns <= system.off_cpu_ns, "time in queues of a span", i);
    Require(system.self_calls <= system.calls && system.self_faults <= system.faults, "self counts",
            i);
  }
}

// Every output, and those that are JSON read back.
inline void ExportAll(const Timeline& timeline) {
  const Aggregates aggregates = Aggregate(timeline, {});
  const TableOptions table;
  FolderTrust everybody;
  everybody.is_checked = false;
  const absl::StatusOr<OutputDirectory> directory = OutputDirectory::Open(".", everybody);
  Require(directory.ok(), "the current directory");
  // Not in the current one, whose files are inputs (run.sh).
  const absl::StatusOr<OutputDirectory> of_folders = OutputDirectory::Open("..", everybody);
  Require(of_folders.ok(), "the directory above");
  for (const Format& format : Formats()) {
    // Refused, and rightly so, where that was not recorded.
    if (!IsRecorded(format.needs, timeline)) continue;
    StringSink sink;
    ExportInput input{timeline, aggregates, table};
    input.directory = &*directory;
    const absl::Status status = format.write_folder == nullptr
                                    ? format.write(input, sink)
                                    : format.write_folder(input, *of_folders, "fuzzed_folder");
    if (!status.ok()) {
      std::fprintf(stderr, "%s: %s\n", std::string(format.name).c_str(), status.ToString().c_str());
    }
    Require(status.ok(), "an output without a disk cannot fail");
    const bool is_json = format.name == "chrome" || format.name == "summary";
    if (!is_json || nlohmann::json::accept(sink.text())) continue;
    try {
      (void)nlohmann::json::parse(sink.text());
    } catch (const nlohmann::json::parse_error& error) {
      const size_t from = error.byte < 200 ? 0 : error.byte - 200;
      std::fprintf(stderr, "%s: %s, at: %s\n", std::string(format.name).c_str(), error.what(),
                   sink.text().substr(from, 240).c_str());
    }
    Require(false, "JSON that parses");
  }
  const Verdict verdict = FindVerdict(timeline, aggregates);
  StringSink document;
  Require(ExportVerdictJson(verdict, document).ok(), "the verdict as JSON");
  Require(nlohmann::json::accept(document.text()), "a verdict that parses");
  Require(!FormatVerdict(verdict).empty(), "the verdict as text");
}

}  // namespace proftrace
