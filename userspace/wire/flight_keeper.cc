#include "userspace/wire/flight_keeper.h"

#include <zstd.h>

#include <algorithm>
#include <utility>

namespace proftrace {
namespace {

// The bytes that a block takes beside its payload: its place in the list and its control block.
constexpr size_t kBytesBesideBlock = 128;
constexpr size_t kDefinitionBlockBytes = 1u << 20;
// Names and last records of a process may still come for this long after its end.
constexpr int64_t kLateNs = 10'000'000'000;

std::vector<std::byte> Decompress(const FlightBlock& block) {
  std::vector<std::byte> records(block.raw_bytes);
  const size_t bytes =
      ZSTD_decompress(records.data(), records.size(), block.stored->data(), block.stored->size());
  records.resize(ZSTD_isError(bytes) ? 0 : std::min(bytes, records.size()));
  return records;
}

size_t BytesOf(const FlightBlock& block) { return kBytesBesideBlock + block.stored->size(); }

}  // namespace

absl::Status FlightKeeper::AppendRecords(std::span<const std::byte> records) {
  return Append(records, &blocks_);
}

absl::Status FlightKeeper::AppendDeviceRecords(std::span<const std::byte> records) {
  return Append(records, &device_blocks_);
}

absl::Status FlightKeeper::AppendMetadata(const std::vector<std::string>& json_arrays) {
  if (json_arrays.empty()) return absl::OkStatus();
  const int64_t now_ns = now_ns_();
  const std::lock_guard lock(mutex_);
  metadata_.Add(json_arrays, now_ns);
  return absl::OkStatus();
}

absl::Status FlightKeeper::Append(std::span<const std::byte> records,
                                  std::deque<FlightBlock>* blocks) {
  const int64_t now_ns = now_ns_();
  FlightBlock block;
  if (!records.empty()) {
    if (absl::Status status = compressor_.Compress(records, 0, &stored_); !status.ok()) {
      return status;
    }
    // This makes a copy of the exact size, because the buffer is large enough for incompressible
    // records.
    block.stored = std::make_shared<const std::vector<std::byte>>(stored_.begin(), stored_.end());
    block.raw_bytes = static_cast<uint32_t>(records.size());
    ForEachRecord(records, [&](const abi::pt_record& head, std::span<const std::byte> record) {
      block.newest_ns = std::max(block.newest_ns, EndOf(head, record));
      block.has_matters |= KeptDefinitions::Matters(head.kind);
    });
    // A GPU agent's records come from the job's own memory and may hold any time. A block of the
    // future would never get old.
    block.newest_ns = std::min(block.newest_ns, now_ns);
  }
  const std::lock_guard lock(mutex_);
  if (block.stored != nullptr) {
    block_bytes_ += BytesOf(block);
    blocks->push_back(std::move(block));
  }
  LetGo(now_ns);
  return absl::OkStatus();
}

void FlightKeeper::LowerLimit(size_t most_bytes) {
  const std::lock_guard lock(mutex_);
  limits_.most_bytes = std::min(limits_.most_bytes, most_bytes);
  sweep_bytes_ = std::min(sweep_bytes_, limits_.most_bytes / kSweepShare);
}

void FlightKeeper::LetGo(int64_t now_ns) {
  for (std::deque<FlightBlock>* blocks : {&blocks_, &device_blocks_}) {
    while (!blocks->empty() && blocks->front().newest_ns < now_ns - limits_.window_ns) {
      LetGoFirst(blocks);
    }
  }
  ForgetEnded();
  metadata_.ForgetSnapshots(now_ns - limits_.window_ns);
  if (definitions_.bytes() > sweep_bytes_) Sweep();
  while (BytesNow() > limits_.most_bytes && (!blocks_.empty() || !device_blocks_.empty())) {
    const bool is_device =
        blocks_.empty() ||
        (!device_blocks_.empty() && device_blocks_.front().newest_ns < blocks_.front().newest_ns);
    LetGoFirst(is_device ? &device_blocks_ : &blocks_);
  }
}

void FlightKeeper::LetGoFirst(std::deque<FlightBlock>* blocks) {
  const FlightBlock block = std::move(blocks->front());
  blocks->pop_front();
  block_bytes_ -= BytesOf(block);
  complete_from_ns_ = std::max(complete_from_ns_, block.newest_ns + 1);
  if (!block.has_matters) return;
  definitions_.Learn(Decompress(block));
  for (const EndedTask& task : definitions_.TakeEnded()) ended_.push_back(task);
}

void FlightKeeper::ForgetEnded() {
  std::vector<EndedTask> over;
  while (!ended_.empty() && ended_.front().end_ns + kLateNs < complete_from_ns_) {
    over.push_back(ended_.front());
    ended_.pop_front();
  }
  if (over.empty()) return;
  definitions_.Forget(over, kLateNs);
  metadata_.Forget(over, kLateNs);
}

void FlightKeeper::Sweep() {
  DefinitionUses uses;
  for (const std::deque<FlightBlock>* blocks : {&blocks_, &device_blocks_}) {
    for (const FlightBlock& block : *blocks) uses.Add(Decompress(block));
  }
  definitions_.KeepUsed(std::move(uses));
  // A sweep reads all blocks, so the next one comes only when definitions have doubled.
  sweep_bytes_ = std::max(limits_.most_bytes / kSweepShare, 2 * definitions_.bytes());
}

FlightSnapshot FlightKeeper::Take() const {
  const std::lock_guard lock(mutex_);
  FlightSnapshot snapshot;
  snapshot.complete_from_ns = complete_from_ns_;
  snapshot.metadata = metadata_.ToJson();
  snapshot.definitions = definitions_.ToBlocks(/*is_device=*/false, kDefinitionBlockBytes);
  snapshot.device_definitions = definitions_.ToBlocks(/*is_device=*/true, kDefinitionBlockBytes);
  snapshot.blocks.assign(blocks_.begin(), blocks_.end());
  snapshot.device_blocks.assign(device_blocks_.begin(), device_blocks_.end());
  return snapshot;
}

size_t FlightKeeper::bytes() const {
  const std::lock_guard lock(mutex_);
  return BytesNow();
}

absl::Status FlightSnapshot::WriteTo(const std::vector<std::string>& last_words,
                                     CaptureWriter* writer) const {
  absl::Status status = writer->AppendMetadata(metadata);
  for (const std::vector<std::byte>& records : definitions) {
    if (status.ok()) status = writer->AppendRecords(records);
  }
  for (const FlightBlock& block : blocks) {
    if (!status.ok()) break;
    status = writer->AppendCompressed(BlockType::kRecords, block.raw_bytes, *block.stored);
  }
  for (const std::vector<std::byte>& records : device_definitions) {
    if (status.ok()) status = writer->AppendDeviceRecords(records);
  }
  for (const FlightBlock& block : device_blocks) {
    if (!status.ok()) break;
    status = writer->AppendCompressed(BlockType::kDeviceRecords, block.raw_bytes, *block.stored);
  }
  if (status.ok()) status = writer->AppendMetadata(last_words);
  return status.ok() ? writer->Finish() : status;
}

}  // namespace proftrace
