// Records in, a timeline out: what the tests of the middle of the pipeline share.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/record_maker.h"
#include "userspace/pipeline/build_timeline.h"

namespace proftrace {

// A capture's tables for one process: sites 1 to 4 are aten::a to aten::d, 5 a boxed call, 6
// evaluate_function.
inline CaptureMetadata TestMetadata() {
  CaptureMetadata metadata;
  PlanTable& plan = metadata.plans[1];
  plan.sites.resize(7);
  for (int i = 1; i <= 4; ++i)
    plan.sites[i].name = std::string("aten::") + static_cast<char>('a' + i - 1);
  plan.sites[6].name = "autograd::engine::evaluate_function: ";
  plan.sites[6].kind = SpanKind::kAutograd;
  ImageTable& image = metadata.images[1];
  image.operators[0x1000] = OperatorEntry{0x1000, "my::op", "out"};
  image.operators[0x2000] = OperatorEntry{0x2000, "profiler::_record_function_enter_new", ""};
  image.operators[0x3000] = OperatorEntry{0x3000, "profiler::_record_function_exit", ""};
  image.node_names[0xa0] = "torch::autograd::generated::AddBackward0";
  image.node_names[0xb0] = "torch::autograd::PyNode";
  image.node_names[0xc0] = "torch::autograd::AccumulateGrad";
  image.python_type_names[0x77] = "MyFunctionBackward";
  ProcessEntry process;
  process.plan = 1;
  process.image = 1;
  process.target.pid = Pid{RecordMaker::kPid};
  metadata.processes.push_back(process);
  return metadata;
}

inline std::unique_ptr<Timeline> Build(const CaptureMetadata& metadata, VectorSource source) {
  absl::StatusOr<std::unique_ptr<Timeline>> timeline = BuildTimeline(metadata, &source, "");
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  EXPECT_TRUE((*timeline)->ledger().ConservationHolds());
  return *std::move(timeline);
}

inline std::unique_ptr<Timeline> Build(RecordMaker& maker,
                                       const CaptureMetadata& metadata = TestMetadata()) {
  VectorSource source;
  source.Add(maker.bytes());
  return Build(metadata, std::move(source));
}

inline std::string NameOf(const Timeline& timeline, uint32_t span) {
  return timeline.label(timeline.span(SpanId{span}).label).name;
}

// "aten::a>aten::b": names from the root.
inline std::string PathOf(const Timeline& timeline, uint32_t span) {
  std::string path;
  for (SpanId id{span}; id != kNoSpan; id = timeline.span(id).parent) {
    path = NameOf(timeline, Raw(id)) + (path.empty() ? "" : ">") + path;
  }
  return path;
}

inline std::vector<std::string> Paths(const Timeline& timeline) {
  std::vector<std::string> paths;
  for (uint32_t i = 0; i < timeline.span_count(); ++i) paths.push_back(PathOf(timeline, i));
  return paths;
}

}  // namespace proftrace
