// Capture files, strictly and salvaged. Byte 0: bit 0 = salvage, bit 1 = make the checksums right
// first, so that what lies behind them is reached.
#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "tests/fuzz/pipeline_check.h"
#include "userspace/pipeline/build_timeline.h"
#include "userspace/wire/capture_format.h"
#include "userspace/wire/capture_reader.h"

namespace proftrace {
namespace {

void FixChecksums(std::vector<std::byte>& file) {
  if (file.size() < sizeof(CaptureFileHeader)) return;
  const uint64_t file_checksum = XXH3_64bits(file.data(), offsetof(CaptureFileHeader, checksum));
  std::memcpy(file.data() + offsetof(CaptureFileHeader, checksum), &file_checksum,
              sizeof(file_checksum));
  size_t offset = sizeof(CaptureFileHeader);
  while (file.size() - offset >= sizeof(BlockHeader)) {
    BlockHeader header;
    std::memcpy(&header, file.data() + offset, sizeof(header));
    const std::byte* payload = file.data() + offset + sizeof(header);
    const size_t left = file.size() - offset - sizeof(header);
    if (header.stored_bytes > left) return;
    header.payload_checksum = XXH3_64bits(payload, header.stored_bytes);
    header.header_checksum = XXH3_64bits(&header, offsetof(BlockHeader, header_checksum));
    std::memcpy(file.data() + offset, &header, sizeof(header));
    offset += sizeof(header) + header.stored_bytes;
  }
}

}  // namespace
}  // namespace proftrace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace proftrace;
  if (size < 1) return 0;
  const auto* bytes = reinterpret_cast<const std::byte*>(data + 1);
  std::vector<std::byte> file(bytes, bytes + size - 1);
  CaptureReader::Options options;
  options.salvage = (data[0] & 1) != 0;
  if ((data[0] & 2) != 0) FixChecksums(file);
  const auto reader = CaptureReader::FromBytes(file, options);
  if (!reader.ok()) return 0;
  Require(options.salvage || (*reader)->damage().empty(), "damage without --salvage");
  const auto device_records = (*reader)->DeviceRecords();
  const auto timeline =
      BuildTimeline((*reader)->metadata(), reader->get(), "", device_records.get());
  if (!timeline.ok()) return 0;
  CheckTimeline(**timeline);
  ExportAll(**timeline);
  return 0;
}
