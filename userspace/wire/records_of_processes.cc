#include "userspace/wire/records_of_processes.h"

#include <optional>

#include "bpf/abi/read_record.h"
#include "bpf/abi/records.h"
#include "userspace/wire/told_once.h"

namespace proftrace {

bool RecordsOfProcesses::IsWanted(std::span<const std::byte> record) const {
  const auto head = ReadRecord<abi::pt_record>(record);
  if (pids_.contains(head.pid)) return true;
  // Losses concern all processes. The stack of a waker belongs to the thread that it woke.
  if (head.kind == abi::PT_LOSS_ANYWHERE || head.kind == abi::PT_WAKER) return true;
  const std::optional<DefinitionKey> defined = DefinitionOf(record);
  const std::optional<DefinitionKey> key = defined ? defined : ContinuationOf(record);
  return key.has_value() && key->pid == 0;
}

absl::StatusOr<RecordBatch> RecordsOfProcesses::Next() {
  if (source_ == nullptr) return RecordBatch{{}, false, /*end=*/true};
  absl::StatusOr<RecordBatch> batch = source_->Next();
  if (!batch.ok()) return batch;
  records_.clear();
  size_t seen = 0;
  ForEachRecord(batch->records, [&](const abi::pt_record&, std::span<const std::byte> record) {
    seen += record.size();
    if (IsWanted(record)) records_.insert(records_.end(), record.begin(), record.end());
  });
  // Damaged bytes are passed on, so that the decoder counts them.
  const std::span<const std::byte> rest = batch->records.subspan(seen);
  records_.insert(records_.end(), rest.begin(), rest.end());
  batch->records = records_;
  return batch;
}

}  // namespace proftrace
