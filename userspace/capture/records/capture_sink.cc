#include "userspace/capture/records/capture_sink.h"

#include <chrono>
#include <utility>

namespace proftrace {
namespace {

constexpr std::chrono::seconds kSyncInterval(1);

}  // namespace

CaptureSink::CaptureSink(std::unique_ptr<BlockSink> writer) : writer_(std::move(writer)) {
  block_.reserve(kBlockBytes);
  thread_ = std::thread([this] { Run(); });
}

CaptureSink::~CaptureSink() {
  if (thread_.joinable()) (void)Finish();
}

void CaptureSink::FlushBlock() { Queue(&block_, false); }

void CaptureSink::FlushDeviceBlock() {
  if (!device_block_.empty()) Queue(&device_block_, true);
}

void CaptureSink::Queue(std::vector<std::byte>* records, bool is_device) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.size() < kQueueBlocks || !status_.ok(); });
  std::vector<std::byte> next;
  if (!spare_.empty()) {
    next = std::move(spare_.back());
    spare_.pop_back();
  }
  next.clear();
  next.reserve(kBlockBytes);
  if (status_.ok())
    queue_.push_back({std::exchange(*records, std::move(next)), is_device});
  else
    records->clear();
  changed_.notify_all();
}

void CaptureSink::WaitUntilWritten() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() && !is_writing_; });
}

void CaptureSink::AddMetadata(const std::function<void(MetadataWriter&)>& add) {
  const std::lock_guard lock(mutex_);
  add(metadata_);
}

absl::Status CaptureSink::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

absl::Status CaptureSink::Write(const Block& block, const std::vector<std::string>& metadata,
                                bool sync) {
  absl::Status status = writer_->AppendMetadata(metadata);
  if (status.ok()) {
    status = block.is_device ? writer_->AppendDeviceRecords(block.records)
                             : writer_->AppendRecords(block.records);
  }
  if (status.ok() && sync) status = writer_->Sync();
  return status;
}

void CaptureSink::Run() {
  auto last_sync = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !queue_.empty() || stop_; });
    if (queue_.empty() && stop_) break;
    Block block = std::move(queue_.front());
    queue_.pop_front();
    const std::vector<std::string> metadata = metadata_.TakeJson();
    const bool may_write = status_.ok();
    is_writing_ = true;
    lock.unlock();
    const auto now = std::chrono::steady_clock::now();
    const bool sync = now - last_sync >= kSyncInterval;
    if (sync) last_sync = now;
    const absl::Status status = may_write ? Write(block, metadata, sync) : absl::OkStatus();
    lock.lock();
    is_writing_ = false;
    if (!status.ok() && status_.ok()) status_ = status;
    if (spare_.size() < kQueueBlocks) spare_.push_back(std::move(block.records));
    changed_.notify_all();
  }
  // The last metadata is written also where the disk is full: the writer has kept some room for it.
  if (!status_.ok()) {
    metadata_.AddUnsupported({"the end of the recording", std::string(status_.message())});
  }
  const std::vector<std::string> metadata = metadata_.TakeJson();
  const absl::Status status = writer_->AppendMetadata(metadata);
  if (status_.ok()) status_ = status;
}

absl::Status CaptureSink::Finish() {
  if (!block_.empty()) FlushBlock();
  FlushDeviceBlock();
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) {
    thread_.join();
    const absl::Status status = writer_->Finish();
    if (status_.ok()) status_ = status;
  }
  return status_;
}

}  // namespace proftrace
