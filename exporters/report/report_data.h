// The data that the sections of the report's page share while they are put together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exporters/args/recording_json.h"
#include "exporters/report/packed_columns.h"
#include "userspace/aggregate/aggregates.h"
#include "userspace/aggregate/step_windows.h"
#include "userspace/model/timeline.h"
#include "userspace/why/step_parts.h"

namespace proftrace {

struct ReportData {
  const Timeline& timeline;
  const Aggregates& aggregates;
  std::optional<StepParts> parts;
  StepWindows windows;           // the steps that have sums of their own
  std::vector<uint32_t> ranked;  // indices into `windows`, in the order of the steps' worth
  PackedColumns columns;
  OrderedJson facts = OrderedJson::object();
  OrderedJson left_out = OrderedJson::array();  // sentences

  // Returns a time as the page has it: since the window's begin.
  int64_t Since(int64_t monotonic_ns) const {
    return monotonic_ns - timeline.info().window.start_ns;
  }
  void AddShares(const std::string& prefix, const std::vector<WindowShare>& shares);
};

// Each of these adds the columns and facts of one section.
void AddStepsTo(ReportData* data);      // steps.cc
void AddTimelineTo(ReportData* data);   // timeline.cc
void AddOperatorsTo(ReportData* data);  // tables.cc
void AddModulesTo(ReportData* data);
void AddStacksTo(ReportData* data);
void AddMemoryTo(ReportData* data);
void AddFilesTo(ReportData* data);
void AddWaitsTo(ReportData* data);
void AddIdleTo(ReportData* data);

}  // namespace proftrace
