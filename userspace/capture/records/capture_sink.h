// Takes records from the thread that empties the ring and writes them on another thread, to the
// capture or into the memory of a flight recorder, so that a slow disk does not hold the ring up.
// Metadata is written before the records that follow it. The sink's memory is bounded: when the
// disk is too slow for long, Append() waits, the ring fills, and the kernel's programs count lost
// records.
#pragma once

#include <absl/status/status.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "userspace/wire/block_sink.h"
#include "userspace/wire/metadata.h"

namespace proftrace {

class CaptureSink {
 public:
  explicit CaptureSink(std::unique_ptr<BlockSink> writer);
  ~CaptureSink();
  CaptureSink(const CaptureSink&) = delete;
  CaptureSink& operator=(const CaptureSink&) = delete;

  // Adds a whole record. To be called by one thread.
  void Append(std::span<const std::byte> record) {
    if (block_.size() + record.size() > kBlockBytes) FlushBlock();
    block_.insert(block_.end(), record.begin(), record.end());
  }
  // Adds a whole record of a GPU agent. To be called by one thread, which may be another one than
  // Append()'s.
  void AppendDevice(std::span<const std::byte> record) {
    if (device_block_.size() + record.size() > kBlockBytes) FlushDeviceBlock();
    device_block_.insert(device_block_.end(), record.begin(), record.end());
  }
  // Hands the agents' records over to the writing thread. To be called by AppendDevice()'s thread.
  void FlushDeviceBlock();
  // Hands the records so far over to the writing thread. To be called regularly, so that little is
  // lost when the tracer is killed.
  void FlushBlock();

  // Waits until all records that were handed over are written.
  void WaitUntilWritten();

  // Adds entries to the next metadata block. May be called on any thread.
  void AddMetadata(const std::function<void(MetadataWriter&)>& add);

  // Returns the first error of the writer, if any. Nothing is written after an error.
  absl::Status status() const;

  // Writes everything and the end block.
  absl::Status Finish();

 private:
  static constexpr size_t kBlockBytes = 1u << 20;
  static constexpr size_t kQueueBlocks = 16;

  struct Block {
    std::vector<std::byte> records;
    bool is_device = false;
  };

  void Run();
  // Queues the records in `records`, which is empty afterwards.
  void Queue(std::vector<std::byte>* records, bool is_device);
  // Writes one block, on the writer thread. With `sync`, makes the block durable.
  absl::Status Write(const Block& block, const std::vector<std::string>& metadata, bool sync);

  std::unique_ptr<BlockSink> writer_;
  std::vector<std::byte> block_;
  std::vector<std::byte> device_block_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Block> queue_;
  std::vector<std::vector<std::byte>> spare_;
  MetadataWriter metadata_;
  absl::Status status_;
  bool is_writing_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace proftrace
