#include "userspace/capture/samples/sample_writer.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "bpf/abi/records.h"

namespace proftrace {
namespace {

size_t BytesOf(const SampleReading& reading) {
  return sizeof(reading) + reading.frames.size() * sizeof(reading.frames[0]) + reading.stack.size();
}

}  // namespace

SampleOf WithoutLooksBefore(int64_t start_ns, SampleOf sample, int64_t period_ns) {
  const int64_t early_ns = start_ns - sample.time_ns;
  if (early_ns <= 0) return sample;
  int64_t early = sample.count;
  if (Raw(sample.woken) == 0 && period_ns > 0) {
    early = std::min(early, (early_ns - 1) / period_ns + 1);
  }
  sample.woken = Tid{};
  sample.count -= static_cast<uint32_t>(early);
  sample.time_ns += early * period_ns;
  return sample;
}

SampleWriter::SampleWriter(int64_t period_ns) : period_ns_(period_ns) {
  thread_ = std::thread([this] { Run(); });
}

SampleWriter::~SampleWriter() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void SampleWriter::Queue(Item item) {
  const std::lock_guard lock(mutex_);
  items_.push_back(std::move(item));
}

void SampleWriter::AddProcess(Pid pid, SampledProcess process) {
  Queue(SampleTask(NewSampledProcess{pid, std::move(process)}));
}

void SampleWriter::RemoveProcess(Pid pid) { Queue(SampleTask(OldSampledProcess{pid})); }

bool SampleWriter::Add(SampleReading reading) {
  const size_t bytes = BytesOf(reading);
  const std::lock_guard lock(mutex_);
  if (waiting_bytes_ + bytes > kMostWaitingBytes) return false;
  waiting_bytes_ += bytes;
  items_.emplace_back(SampleTask(std::move(reading)));
  return true;
}

void SampleWriter::Add(const SampleOf& sample) {
  Queue(WithoutLooksBefore(start_ns_, sample, period_ns_));
}

std::optional<SampleTask> SampleWriter::Next() {
  std::unique_lock lock(mutex_);
  while (true) {
    ready_.insert(ready_.end(), records_.begin(), records_.end());
    records_.clear();
    is_idle_ = items_.empty();
    if (is_idle_) changed_.notify_all();
    changed_.wait(lock, [this] { return stop_ || !items_.empty(); });
    if (stop_) return std::nullopt;
    Item item = std::move(items_.front());
    items_.pop_front();
    is_idle_ = false;
    if (auto* task = std::get_if<SampleTask>(&item)) {
      if (const auto* reading = std::get_if<SampleReading>(task)) {
        waiting_bytes_ -= BytesOf(*reading);
      }
      return std::move(*task);
    }
    lock.unlock();
    Write(std::get<SampleOf>(item));
    lock.lock();
  }
}

void SampleWriter::TakeNamed(NamedReading named) {
  named_[named.number] = named.sample;
  records_.insert(records_.end(), named.records.begin(), named.records.end());
}

void SampleWriter::Run() {
  const absl::Status status = SampleWorker().Run(
      [this] { return Next(); }, [this](NamedReading named) { TakeNamed(std::move(named)); });
  if (status.ok()) return;
  {
    const std::lock_guard lock(mutex_);
    failure_ = std::string(status.message());
  }
  // Looks without names are counted as lost.
  while (Next()) {
  }
}

std::string SampleWriter::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void SampleWriter::Write(const SampleOf& sample) {
  const auto named = named_.find(sample.reading);
  if (named == named_.end()) {
    lost_ += sample.count;
    return;
  }
  if (Raw(sample.woken) != 0) {
    abi::pt_waker_record record{};
    record.head.time_ns = static_cast<uint64_t>(sample.time_ns);
    record.head.pid = Raw(sample.pid);
    record.head.tid = Raw(sample.tid);
    record.head.kind = abi::PT_WAKER;
    record.head.words = sizeof(record) / 8;
    record.frame = named->second.frame;
    record.woken_tid = Raw(sample.woken);
    record.flags = named->second.flags;
    const auto* bytes = reinterpret_cast<const std::byte*>(&record);
    records_.insert(records_.end(), bytes, bytes + sizeof(record));
  } else if (sample.count > 0) {
    abi::pt_sample_record record{};
    record.head.time_ns = static_cast<uint64_t>(sample.time_ns);
    record.head.pid = Raw(sample.pid);
    record.head.tid = Raw(sample.tid);
    record.head.kind = abi::PT_SAMPLE;
    record.head.words = sizeof(record) / 8;
    record.period_ns = static_cast<uint64_t>(period_ns_);
    record.count = sample.count;
    record.frame = named->second.frame;
    record.call = std::max(sample.call, -1);
    record.state = sample.state;
    record.flags = named->second.flags;
    const auto* bytes = reinterpret_cast<const std::byte*>(&record);
    records_.insert(records_.end(), bytes, bytes + sizeof(record));
  }
  if (sample.is_last) named_.erase(named);
}

uint64_t SampleWriter::Settle(int64_t longest_ns) {
  std::unique_lock lock(mutex_);
  return Settle(longest_ns, &lock);
}

uint64_t SampleWriter::Settle(int64_t longest_ns, std::unique_lock<std::mutex>* lock) {
  Wake();
  changed_.wait_for(*lock, std::chrono::nanoseconds(longest_ns),
                    [this] { return is_idle_ && items_.empty(); });
  uint64_t waiting = 0;
  for (const Item& item : items_) {
    if (const auto* sample = std::get_if<SampleOf>(&item)) waiting += sample->count;
  }
  return waiting;
}

void SampleWriter::Finish(int64_t longest_ns) {
  std::unique_lock lock(mutex_);
  lost_ += Settle(longest_ns, &lock);
  items_.clear();
  waiting_bytes_ = 0;
}

void SampleWriter::TakeRecords(const std::function<void(std::span<const std::byte>)>& append) {
  std::vector<std::byte> records;
  {
    const std::lock_guard lock(mutex_);
    records.swap(ready_);
  }
  for (size_t at = 0; at < records.size();) {
    abi::pt_record head;
    std::memcpy(&head, records.data() + at, sizeof(head));
    append(std::span(records).subspan(at, size_t{head.words} * 8));
    at += size_t{head.words} * 8;
  }
}

}  // namespace proftrace
