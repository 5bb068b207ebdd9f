#include "userspace/wire/capture_part.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "bpf/abi/gpu_records.h"
#include "bpf/abi/records.h"
#include "userspace/wire/told_once.h"

namespace proftrace {
namespace {

constexpr size_t kNoPart = ~size_t{0};

// Selects the parts to which the records of a batch go.
class Selection {
 public:
  Selection(std::span<const CapturePart> parts, std::span<CaptureWriter* const> writers)
      : parts_(parts), writers_(writers), selected_(parts.size()) {}

  size_t size() const { return parts_.size(); }

  // Returns the first part that ends after `time_ns`, or size().
  size_t From(int64_t time_ns) const {
    const auto found =
        std::upper_bound(parts_.begin(), parts_.end(), time_ns,
                         [](int64_t time, const CapturePart& part) { return time < part.end_ns; });
    return static_cast<size_t>(found - parts_.begin());
  }

  // Returns the part that `head` is in by its time, or kNoPart.
  size_t PartOf(const abi::pt_record& head) const {
    const auto time_ns = static_cast<int64_t>(head.time_ns);
    const size_t part = From(time_ns);
    return part < size() && time_ns >= parts_[part].start_ns ? part : kNoPart;
  }

  void Add(size_t part, std::span<const std::byte> record) {
    selected_[part].insert(selected_[part].end(), record.begin(), record.end());
  }

  // Adds a record to the parts from `first` on that begin by `until_ns`.
  void AddFrom(size_t first, int64_t until_ns, std::span<const std::byte> record) {
    for (size_t i = first; i < size() && parts_[i].start_ns <= until_ns; ++i) Add(i, record);
  }

  absl::Status Write(absl::Status (CaptureWriter::*append)(std::span<const std::byte>)) {
    for (size_t i = 0; i < size(); ++i) {
      if (selected_[i].empty()) continue;
      if (absl::Status status = (writers_[i]->*append)(selected_[i]); !status.ok()) return status;
      selected_[i].clear();
    }
    return absl::OkStatus();
  }

 private:
  std::span<const CapturePart> parts_;
  std::span<CaptureWriter* const> writers_;
  std::vector<std::vector<std::byte>> selected_;  // by part
};

absl::Status CopyRecords(CaptureReader* reader, Selection* selection) {
  while (true) {
    const absl::StatusOr<RecordBatch> batch = reader->Next();
    if (!batch.ok()) return batch.status();
    if (batch->end) return absl::OkStatus();
    ForEachRecord(
        batch->records, [&](const abi::pt_record& head, std::span<const std::byte> record) {
          const auto time_ns = static_cast<int64_t>(head.time_ns);
          // The record is in the first of these parts, or reaches into the part, or is needed
          // there.
          const int64_t until_ns = IsToldOnce(head.kind) ? std::numeric_limits<int64_t>::max()
                                                         : std::max(time_ns, EndOf(head, record));
          selection->AddFrom(selection->From(time_ns), until_ns, record);
        });
    if (absl::Status status = selection->Write(&CaptureWriter::AppendRecords); !status.ok()) {
      return status;
    }
  }
}

// Returns the process and correlation id of a call, or of work that a call asked for; 0: the record
// has none.
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

// Returns whether a record belongs to no moment: names, devices, contexts and losses.
bool IsFact(const abi::pt_record& head) {
  return head.time_ns == 0 || head.kind == abi::PT_GPU_NAME || head.kind == abi::PT_GPU_DEVICE ||
         head.kind == abi::PT_GPU_CONTEXT || head.kind == abi::PT_GPU_CLOCK;
}

absl::Status CopyDeviceRecords(CaptureReader* reader, Selection* selection) {
  absl::flat_hash_map<uint64_t, size_t> part_of_call;
  // The first pass finds the calls of the parts, because records of work may come before those of
  // their calls.
  for (const bool is_copying : {false, true}) {
    const std::unique_ptr<RecordSource> source = reader->DeviceRecords();
    while (true) {
      const absl::StatusOr<RecordBatch> batch = source->Next();
      if (!batch.ok()) return batch.status();
      if (batch->end) break;
      ForEachRecord(batch->records,
                    [&](const abi::pt_record& head, std::span<const std::byte> record) {
                      const size_t part = selection->PartOf(head);
                      const uint64_t key = CallKey(head, record);
                      if (!is_copying) {
                        if (head.kind == abi::PT_GPU_CALL && part != kNoPart) {
                          part_of_call[key] = part;
                        }
                        return;
                      }
                      if (IsFact(head)) {
                        selection->AddFrom(0, std::numeric_limits<int64_t>::max(), record);
                        return;
                      }
                      const auto call = key == 0 ? part_of_call.end() : part_of_call.find(key);
                      if (part != kNoPart) selection->Add(part, record);
                      if (call != part_of_call.end() && call->second != part) {
                        selection->Add(call->second, record);
                      }
                    });
      if (absl::Status status = selection->Write(&CaptureWriter::AppendDeviceRecords);
          !status.ok()) {
        return status;
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CopyCaptureParts(std::span<const CapturePart> parts, CaptureReader* reader,
                              std::span<CaptureWriter* const> writers) {
  for (CaptureWriter* writer : writers) {
    if (absl::Status status = writer->AppendMetadata(reader->metadata_text()); !status.ok()) {
      return status;
    }
  }
  Selection selection(parts, writers);
  if (absl::Status status = CopyRecords(reader, &selection); !status.ok()) return status;
  if (absl::Status status = CopyDeviceRecords(reader, &selection); !status.ok()) return status;
  const CaptureMetadata& whole = reader->metadata();
  for (size_t i = 0; i < parts.size(); ++i) {
    Window window = whole.info.window;
    window.start_ns = parts[i].start_ns;
    window.duration_ns = parts[i].end_ns - parts[i].start_ns;
    MetadataWriter metadata;
    metadata.AddCut(parts[i].start_ns);
    metadata.AddSteps(parts[i].steps);
    metadata.AddEnd(window, whole.info.cost, whole.kernel_ledger);
    if (absl::Status status = writers[i]->AppendMetadata(metadata.TakeJson()); !status.ok()) {
      return status;
    }
    if (absl::Status status = writers[i]->Finish(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace proftrace
