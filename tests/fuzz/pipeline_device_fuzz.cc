// Records of GPU agents beside those of a small job. Byte 0: bit 0 = in two batches with a gap
// between them, bit 1 = write all outputs too (slow).
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/fuzz/pipeline_check.h"
#include "tests/support/pipeline_metadata.h"
#include "tests/support/record_maker.h"
#include "userspace/pipeline/build_timeline.h"

namespace proftrace {
namespace {

// Operators, an annotation, and a loss, for calls to fall into.
std::vector<std::byte> Operators() {
  RecordMaker maker;
  for (int64_t i = 0; i < 20; ++i) {
    const uint32_t tid = static_cast<uint32_t>(i % 3);
    maker.AnnotationBegin(tid, 1000 * i, "step");
    maker.AnnotationHandle(tid, 1000 * i + 10, 0x51);
    maker.Begin(tid, 1000 * i + 100, 1, 0);
    maker.Begin(tid, 1000 * i + 200, 2, 1);
    if (i % 7 == 3) maker.Loss(tid, 1000 * i + 300, 2);
    maker.End(tid, 1000 * i + 400, 2, 1);
    maker.End(tid, 1000 * i + 500, 1, 0);
    maker.AnnotationEnd(tid, 1000 * i + 600, 0x51);
  }
  return maker.bytes();
}

}  // namespace
}  // namespace proftrace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace proftrace;
  if (size < 1) return 0;
  static const CaptureMetadata& metadata = *new CaptureMetadata(TestMetadata());
  static const std::vector<std::byte>& operators = *new std::vector<std::byte>(Operators());
  const auto* bytes = reinterpret_cast<const std::byte*>(data + 1);
  const size_t length = size - 1;
  const size_t first = (data[0] & 1) != 0 ? length / 16 * 8 : length;
  VectorSource source;
  source.Add(operators);
  VectorSource devices;
  devices.Add(std::vector<std::byte>(bytes, bytes + first));
  devices.Add(std::vector<std::byte>(bytes + first, bytes + length), first < length);
  const auto timeline = BuildTimeline(metadata, &source, "", &devices);
  Require(timeline.ok(), "records alone cannot fail");
  CheckTimeline(**timeline);
  CheckDevices(**timeline);
  if ((data[0] & 2) != 0) ExportAll(**timeline);
  return 0;
}
