// Records in, a timeline out: what the tests of the middle of the pipeline share.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/pipeline_metadata.h"
#include "tests/support/record_maker.h"
#include "userspace/pipeline/build_timeline.h"

namespace proftrace {

inline std::unique_ptr<Timeline> Build(const CaptureMetadata& metadata, VectorSource source) {
  absl::StatusOr<std::unique_ptr<Timeline>> timeline = BuildTimeline(metadata, &source, "");
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  EXPECT_TRUE((*timeline)->ledger().ConservationHolds());
  EXPECT_TRUE((*timeline)->device_ledger().ConservationHolds());
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
