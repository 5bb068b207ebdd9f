// The memory of a flight recorder: the compressed blocks of the last seconds, and the definitions
// and metadata from older blocks that they need. A block is dropped when all its records are older
// than the window, or when memory is used up: then the window is shorter, and a snapshot says so.
//
// One thread appends; any thread may take snapshots.
#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "userspace/wire/block_sink.h"
#include "userspace/wire/capture_writer.h"
#include "userspace/wire/kept_definitions.h"
#include "userspace/wire/kept_metadata.h"

namespace proftrace {

// When definitions take 1/kSweepShare of the memory, those that are not used any more are looked
// for and dropped.
inline constexpr size_t kSweepShare = 16;

struct FlightLimits {
  int64_t window_ns = 0;
  size_t most_bytes = 0;  // the most memory for blocks, definitions and metadata
};

struct FlightBlock {
  std::shared_ptr<const std::vector<std::byte>> stored;  // as BlockCompressor makes it
  uint32_t raw_bytes = 0;
  int64_t newest_ns = 0;     // the latest time in its records
  bool has_matters = false;  // it has records that KeptDefinitions::Learn() must see
};

// The blocks that a flight recorder had at a moment. The blocks are shared with the recorder, not
// copied.
struct FlightSnapshot {
  // The snapshot has every record that was recorded from this time on.
  int64_t complete_from_ns = 0;
  std::vector<std::string> metadata;
  std::vector<std::vector<std::byte>> definitions;
  std::vector<std::vector<std::byte>> device_definitions;
  std::vector<FlightBlock> blocks;
  std::vector<FlightBlock> device_blocks;

  // Writes a whole capture. `last_words`: metadata of the window, which is written after that of
  // the recording.
  absl::Status WriteTo(const std::vector<std::string>& last_words, CaptureWriter* writer) const;
};

class FlightKeeper final : public BlockSink {
 public:
  // `now_ns`: CLOCK_MONOTONIC.
  FlightKeeper(const FlightLimits& limits, std::function<int64_t()> now_ns)
      : limits_(limits),
        now_ns_(std::move(now_ns)),
        sweep_bytes_(limits.most_bytes / kSweepShare) {}

  absl::Status AppendRecords(std::span<const std::byte> records) override;
  absl::Status AppendDeviceRecords(std::span<const std::byte> records) override;
  absl::Status AppendMetadata(const std::vector<std::string>& json_arrays) override;
  absl::Status Sync() override { return absl::OkStatus(); }
  absl::Status Finish() override { return absl::OkStatus(); }

  // Lowers the limit of the memory from here on.
  void LowerLimit(size_t most_bytes);
  FlightSnapshot Take() const;
  // Returns about how much memory the keeper uses.
  size_t bytes() const;

 private:
  absl::Status Append(std::span<const std::byte> records, std::deque<FlightBlock>* blocks);
  // The caller of the next functions holds the lock.
  void LetGo(int64_t now_ns);
  void LetGoFirst(std::deque<FlightBlock>* blocks);
  void ForgetEnded();
  // Drops definitions that nothing refers to any more.
  void Sweep();
  size_t BytesNow() const { return block_bytes_ + definitions_.bytes() + metadata_.bytes(); }

  FlightLimits limits_;
  std::function<int64_t()> now_ns_;
  BlockCompressor compressor_;     // the appending thread's
  std::vector<std::byte> stored_;  // the appending thread's

  mutable std::mutex mutex_;
  std::deque<FlightBlock> blocks_;
  std::deque<FlightBlock> device_blocks_;
  size_t block_bytes_ = 0;
  int64_t complete_from_ns_ = 0;
  KeptDefinitions definitions_;
  KeptMetadata metadata_;
  std::deque<EndedTask> ended_;  // tasks that kept records may still refer to
  size_t sweep_bytes_;           // the size of definitions at which the next Sweep() is due
};

}  // namespace proftrace
