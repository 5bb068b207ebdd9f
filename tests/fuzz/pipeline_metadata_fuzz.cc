// Metadata blocks, then a few records that use them. Byte 0 is not used.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tests/fuzz/pipeline_check.h"
#include "tests/support/record_maker.h"
#include "userspace/pipeline/build_timeline.h"

namespace proftrace {
namespace {

VectorSource Records() {
  RecordMaker maker;
  maker.Begin(1, 1000, 1, 0);
  maker.Boxed(1, 1100, 5, 1, 0x1000);
  maker.Node(1, 1200, 6, 2, 0xa0, 0, "");
  maker.Begin(1, 1250, 0xffff, 3);
  maker.End(1, 1300, 6, 2);
  maker.AnnotationBegin(1, 1400, "name");
  maker.AnnotationHandle(1, 1450, 7);
  maker.AnnotationEnd(1, 1500, 7);
  maker.End(1, 1600, 5, 1);
  maker.End(1, 1700, 1, 0);
  maker.Begin(2, 1800, 2, 0);
  VectorSource source;
  source.Add(maker.bytes());
  return source;
}

}  // namespace
}  // namespace proftrace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace proftrace;
  if (size < 1) return 0;
  CaptureMetadata metadata;
  if (!metadata.Merge(std::string_view(reinterpret_cast<const char*>(data + 1), size - 1)).ok())
    return 0;
  VectorSource source = Records();
  const auto timeline = BuildTimeline(metadata, &source, "");
  Require(timeline.ok(), "metadata alone cannot fail");
  CheckTimeline(**timeline);
  ExportAll(**timeline);
  return 0;
}
