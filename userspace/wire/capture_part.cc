#include "userspace/wire/capture_part.h"

#include <cstring>
#include <vector>

#include "bpf/abi/records.h"

namespace proftrace {
namespace {

// Whether a record is needed beside those of the stretch: what says which process a thread is of.
bool IsOfProcess(uint8_t kind) {
  return kind == abi::PT_FORK || kind == abi::PT_EXEC || kind == abi::PT_THREAD_EXIT;
}

// The records of `batch` that are in the part, in order.
void Select(const CapturePart& part, std::span<const std::byte> batch,
            std::vector<std::byte>* selected) {
  selected->clear();
  size_t at = 0;
  while (batch.size() - at >= sizeof(abi::pt_record)) {
    abi::pt_record head;
    std::memcpy(&head, batch.data() + at, sizeof(head));
    const size_t bytes = size_t{head.words} * 8;
    if (bytes < sizeof(head) || bytes > batch.size() - at) return;  // a damaged capture
    const int64_t time_ns = static_cast<int64_t>(head.time_ns);
    const bool is_in = time_ns >= part.start_ns && time_ns < part.end_ns;
    if (is_in || (time_ns < part.start_ns && IsOfProcess(head.kind))) {
      const std::span<const std::byte> record = batch.subspan(at, bytes);
      selected->insert(selected->end(), record.begin(), record.end());
    }
    at += bytes;
  }
}

}  // namespace

absl::Status CopyCapturePart(const CapturePart& part, CaptureReader* reader,
                             CaptureWriter* writer) {
  if (absl::Status status = writer->AppendMetadata(reader->metadata_text()); !status.ok()) {
    return status;
  }
  std::vector<std::byte> selected;
  while (true) {
    const absl::StatusOr<RecordBatch> batch = reader->Next();
    if (!batch.ok()) return batch.status();
    if (batch->end) break;
    Select(part, batch->records, &selected);
    if (selected.empty()) continue;
    if (absl::Status status = writer->AppendRecords(selected); !status.ok()) return status;
  }
  const CaptureMetadata& whole = reader->metadata();
  Window window = whole.info.window;
  window.start_ns = part.start_ns;
  window.duration_ns = part.end_ns - part.start_ns;
  MetadataWriter metadata;
  metadata.AddCut(part.start_ns);
  metadata.AddSteps(part.steps);
  metadata.AddEnd(window, whole.info.cost, whole.kernel_ledger);
  if (absl::Status status = writer->AppendMetadata(metadata.TakeJson()); !status.ok()) {
    return status;
  }
  return writer->Finish();
}

}  // namespace proftrace
