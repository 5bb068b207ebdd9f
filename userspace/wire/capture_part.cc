#include "userspace/wire/capture_part.h"

#include <absl/container/flat_hash_set.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "bpf/abi/gpu_records.h"
#include "bpf/abi/records.h"
#include "userspace/wire/told_once.h"

namespace proftrace {
namespace {

bool IsIn(const CapturePart& part, const abi::pt_record& head) {
  const auto time_ns = static_cast<int64_t>(head.time_ns);
  return time_ns >= part.start_ns && time_ns < part.end_ns;
}

// The records of `batch` that are in the part, in order.
void Select(const CapturePart& part, std::span<const std::byte> batch,
            std::vector<std::byte>* selected) {
  selected->clear();
  ForEachRecord(batch, [&](const abi::pt_record& head, std::span<const std::byte> record) {
    const bool is_before = static_cast<int64_t>(head.time_ns) < part.start_ns;
    const bool reaches_in = is_before && EndOf(head, record) >= part.start_ns;
    if (IsIn(part, head) || reaches_in || (is_before && IsToldOnce(head.kind))) {
      selected->insert(selected->end(), record.begin(), record.end());
    }
  });
}

// Process and correlation id of a call, or of what a call asked for; 0 = it has none.
uint64_t CallKey(const abi::pt_record& head, std::span<const std::byte> record) {
  size_t offset = 0;
  switch (head.kind) {
    case abi::PT_GPU_CALL:
      offset = offsetof(abi::pt_gpu_call_record, correlation);
      break;
    case abi::PT_GPU_KERNEL:
      offset = offsetof(abi::pt_gpu_kernel_record, correlation);
      break;
    case abi::PT_GPU_MEMCPY:
      offset = offsetof(abi::pt_gpu_memcpy_record, correlation);
      break;
    case abi::PT_GPU_MEMSET:
      offset = offsetof(abi::pt_gpu_memset_record, correlation);
      break;
    case abi::PT_GPU_GRAPH:
      offset = offsetof(abi::pt_gpu_graph_record, correlation);
      break;
    case abi::PT_GPU_EVENT:
      offset = offsetof(abi::pt_gpu_event_record, correlation);
      break;
    default:
      return 0;
  }
  abi::pt_u32 correlation = 0;
  if (record.size() < offset + sizeof(correlation)) return 0;
  std::memcpy(&correlation, record.data() + offset, sizeof(correlation));
  return correlation == 0 ? 0 : uint64_t{head.pid} << 32 | correlation;
}

// Records of no moment: names, devices, contexts, what was lost.
bool IsFact(const abi::pt_record& head) {
  return head.time_ns == 0 || head.kind == abi::PT_GPU_NAME || head.kind == abi::PT_GPU_DEVICE ||
         head.kind == abi::PT_GPU_CONTEXT || head.kind == abi::PT_GPU_CLOCK;
}

absl::Status CopyDeviceRecords(const CapturePart& part, CaptureReader* reader,
                               CaptureWriter* writer) {
  absl::flat_hash_set<uint64_t> calls;
  std::vector<std::byte> selected;
  // First the calls of the part: what they asked for may have come before them.
  for (const bool is_copying : {false, true}) {
    const std::unique_ptr<RecordSource> source = reader->DeviceRecords();
    while (true) {
      const absl::StatusOr<RecordBatch> batch = source->Next();
      if (!batch.ok()) return batch.status();
      if (batch->end) break;
      selected.clear();
      ForEachRecord(
          batch->records, [&](const abi::pt_record& head, std::span<const std::byte> record) {
            const uint64_t key = CallKey(head, record);
            if (!is_copying) {
              if (head.kind == abi::PT_GPU_CALL && IsIn(part, head)) calls.insert(key);
            } else if (IsIn(part, head) || IsFact(head) || (key != 0 && calls.contains(key))) {
              selected.insert(selected.end(), record.begin(), record.end());
            }
          });
      if (absl::Status status = writer->AppendDeviceRecords(selected); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
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
  if (absl::Status status = CopyDeviceRecords(part, reader, writer); !status.ok()) return status;
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
