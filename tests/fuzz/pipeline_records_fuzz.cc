// Raw records, with the tables of a small job. Byte 0: bit 0 = in two batches with a gap between
// them, bit 1 = write all outputs too (slow), bit 2 = of a recording with system activity.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/fuzz/pipeline_check.h"
#include "tests/support/pipeline_metadata.h"
#include "tests/support/record_maker.h"
#include "userspace/pipeline/build_timeline.h"

namespace {

proftrace::CaptureMetadata MetadataWithSystem() {
  proftrace::CaptureMetadata metadata = proftrace::TestMetadata();
  metadata.info.system = proftrace::SystemActivities::FromText("cpu,syscalls,io,sched,faults");
  metadata.info.window.start_ns = 1000;
  metadata.info.window.duration_ns = 1'000'000'000;
  metadata.has_end = true;
  return metadata;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace proftrace;
  if (size < 1) return 0;
  static const CaptureMetadata& plain = *new CaptureMetadata(TestMetadata());
  static const CaptureMetadata& with_system = *new CaptureMetadata(MetadataWithSystem());
  const auto* bytes = reinterpret_cast<const std::byte*>(data + 1);
  const size_t length = size - 1;
  const size_t first = (data[0] & 1) != 0 ? length / 16 * 8 : length;
  VectorSource source;
  source.Add(std::vector<std::byte>(bytes, bytes + first));
  source.Add(std::vector<std::byte>(bytes + first, bytes + length), first < length);
  const auto timeline = BuildTimeline((data[0] & 4) != 0 ? with_system : plain, &source, "");
  Require(timeline.ok(), "records alone cannot fail");
  CheckTimeline(**timeline);
  CheckSystem(**timeline);
  if ((data[0] & 2) != 0) ExportAll(**timeline);
  return 0;
}
