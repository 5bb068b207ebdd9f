#include "exporters/report/report_html.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "exporters/report/report_data.h"
#include "exporters/report/report_page.h"
#include "exporters/sinks/escape.h"
#include "exporters/stacks/flamegraph_html.h"
#include "exporters/text/summary_json.h"
#include "userspace/base/dumped_json.h"
#include "userspace/base/midnight.h"
#include "userspace/base/shown_text.h"
#include "userspace/why/verdict.h"

namespace proftrace {
namespace {

constexpr int kPageFormat = 1;  // of the facts and columns
// The least and the most steps that have sums of their own. Steps beyond the most have no bars
// either.
constexpr size_t kFewestWindows = 200;
constexpr size_t kMostWindows = 10'000;
// The most sums of rows in steps. Each sum takes about seven bytes in the page.
constexpr size_t kMostShares = 250'000;

OrderedJson Shown(const std::vector<std::string>& sentences) {
  OrderedJson list = OrderedJson::array();
  for (const std::string& sentence : sentences) list.push_back(ShownText(sentence));
  return list;
}

OrderedJson VerdictJson(const Verdict& verdict) {
  OrderedJson findings = OrderedJson::array();
  for (const Finding& finding : verdict.findings) {
    findings.push_back({{"kind", FindingKindName(finding.kind)},
                        {"ns", finding.ns},
                        {"ms_a_step", verdict.MsAStep(finding)},
                        {"share", verdict.ShareOf(finding)},
                        {"certainty", CertaintyName(finding.certainty)},
                        {"is_part_of_others", finding.is_part_of_others()},
                        {"what", ShownText(finding.what)},
                        {"evidence", Shown(finding.evidence)},
                        {"next", ShownText(finding.next)}});
  }
  return {{"about", ShownText(verdict.about)},
          {"are_steps", verdict.are_steps},
          {"steps", verdict.steps},
          {"findings", std::move(findings)},
          {"remarks", Shown(verdict.remarks)}};
}

// Escapes every text in `json` for display, because names from outside are among them.
void ShowTexts(OrderedJson* json) {
  if (json->is_string()) {
    *json = ShownText(json->get<std::string>());
  } else if (json->is_object() || json->is_array()) {
    for (OrderedJson& inner : *json) ShowTexts(&inner);
  }
}

// Returns how many steps get sums of their own: all of them where each has few rows. A step has no
// more rows of a table than it has spans, and no more than the table has.
size_t WindowsThatFit(const Timeline& timeline, const Aggregates& aggregates, size_t steps) {
  const size_t spans = timeline.spans().size() / std::max<size_t>(steps, 1) + 1;
  const size_t rows = std::min(spans, aggregates.stacks.nodes.size()) +
                      std::min(spans, aggregates.key_averages.rows.size()) +
                      std::min(spans, timeline.python_modules().size());
  return std::clamp(kMostShares / std::max<size_t>(rows, 1), kFewestWindows, kMostWindows);
}

void AddFacts(const Verdict& verdict, ReportData* data) {
  const Timeline& timeline = data->timeline;
  const RecordingWords words = WordsOf(timeline, data->aggregates);
  OrderedJson& facts = data->facts;
  facts["format"] = kPageFormat;
  facts["title"] = ShownText(words.title);
  facts["subtitle"] = ShownText(words.subtitle);
  facts["window_ns"] = timeline.info().window.duration_ns;
  // This is the trace's own time, for links from the page into the trace.
  const int64_t start_ns = timeline.ToUnixNs(timeline.info().window.start_ns);
  facts["trace_start_ns"] = start_ns - MidnightBefore(start_ns);
  facts["lost"] = timeline.any_loss();
  facts["has_end"] = timeline.info().has_end;
  facts["recorded"] = {{"shapes", timeline.has_inputs()},
                       {"memory", timeline.has_memory()},
                       {"stacks", timeline.has_stacks()},
                       {"sched", timeline.has_sched()},
                       {"gpu", timeline.has_device_records()},
                       {"calls", timeline.info().system.calls || timeline.info().system.io},
                       {"samples", !timeline.samples().empty()}};
  facts["verdict"] = VerdictJson(verdict);
  OrderedJson summary = SummaryJson(timeline, data->aggregates);
  // These members are in the page as columns, or are not shown.
  for (const char* part : {"time", "key_averages", "clocks"}) summary.erase(part);
  if (summary["steps"].is_object()) summary["steps"].erase("processes");
  ShowTexts(&summary);
  facts["summary"] = std::move(summary);
}

}  // namespace

void ReportData::AddShares(const std::string& prefix, const std::vector<WindowShare>& shares) {
  PackedTable table({"window", "row", "a", "b", "c", "d"});
  for (const WindowShare& share : shares) {
    table.AddRow({share.window, share.row, share.values[0], share.values[1], share.values[2],
                  share.values[3]});
  }
  table.AddTo(prefix, &columns);
}

absl::Status ExportReport(const Timeline& timeline, const Aggregates& aggregates, ByteSink& sink) {
  ReportData data{timeline, aggregates, SplitSteps(timeline, aggregates.steps), {}, {}, {}};
  if (data.parts.has_value() && data.parts->are_steps) {
    const std::vector<std::pair<int64_t, int64_t>>& steps = data.parts->intervals;
    data.windows =
        ChooseSteps(steps, WindowsThatFit(timeline, aggregates, steps.size()), &data.ranked);
  }
  AddFacts(FindVerdict(timeline, aggregates), &data);
  for (const auto add : {AddStepsTo, AddTimelineTo, AddOperatorsTo, AddModulesTo, AddStacksTo,
                         AddMemoryTo, AddFilesTo, AddWaitsTo, AddIdleTo}) {
    add(&data);
  }
  data.facts["left_out"] = std::move(data.left_out);
  data.facts["columns"] = data.columns.Finish();
  const absl::StatusOr<std::string> packed = data.columns.Base64();
  if (!packed.ok()) return packed.status();
  const std::string facts = ScriptSafe(DumpedJson(data.facts));
  for (const std::string_view part : {kReportPageHead, std::string_view(facts), kReportPageMiddle,
                                      std::string_view(*packed), kReportPageTail}) {
    if (absl::Status status = sink.Write(part); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace proftrace
