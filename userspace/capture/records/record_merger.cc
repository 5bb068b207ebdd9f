#include "userspace/capture/records/record_merger.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <queue>
#include <utility>

#include "bpf/abi/records.h"

namespace proftrace {
namespace {

abi::pt_record HeadOf(const std::vector<std::byte>& bytes, size_t at) {
  abi::pt_record head{};
  std::memcpy(&head, bytes.data() + at, sizeof(head));
  return head;
}

}  // namespace

void RecordMerger::Add(std::span<const std::byte> record, RecordOrigin origin) {
  abi::pt_record head{};
  if (record.size() < sizeof(head)) return;
  std::memcpy(&head, record.data(), sizeof(head));
  Thread& thread = threads_[head.tid];
  Queue& queue = origin == RecordOrigin::kJump ? thread.jumps : thread.probes;
  queue.bytes.insert(queue.bytes.end(), record.begin(), record.end());
}

int64_t RecordMerger::Queue::next_ns() const {
  if (head >= bytes.size()) return kNone;
  return static_cast<int64_t>(HeadOf(bytes, head).time_ns);
}

void RecordMerger::Queue::EmitOne(RecordOrigin origin, const OnRecord& on_record) {
  const size_t size = size_t{HeadOf(bytes, head).words} * 8;
  on_record({bytes.data() + head, size}, origin);
  head += size;
}

void RecordMerger::Queue::Compact() {
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(head));
  head = 0;
}

void RecordMerger::Thread::EmitOne(const OnRecord& on_record) {
  if (jumps.next_ns() <= probes.next_ns()) {
    jumps.EmitOne(RecordOrigin::kJump, on_record);
  } else {
    probes.EmitOne(RecordOrigin::kProbe, on_record);
  }
}

void RecordMerger::Emit(int64_t until_ns, const OnRecord& on_record) {
  using Next = std::pair<int64_t, uint32_t>;  // time of the next record, and its thread
  until_ns = std::min(until_ns, kNone - 1);
  std::priority_queue<Next, std::vector<Next>, std::greater<>> order;
  for (const auto& [tid, thread] : threads_) {
    if (thread.next_ns() <= until_ns) order.emplace(thread.next_ns(), tid);
  }
  while (!order.empty()) {
    const uint32_t tid = order.top().second;
    order.pop();
    const Next others = order.empty() ? Next(until_ns, ~uint32_t{0}) : order.top();
    Thread& thread = threads_[tid];
    do {
      thread.EmitOne(on_record);
    } while (Next(thread.next_ns(), tid) <= others);
    if (thread.next_ns() <= until_ns) order.emplace(thread.next_ns(), tid);
  }
  for (auto it = threads_.begin(); it != threads_.end();) {
    Thread& thread = it->second;
    thread.jumps.Compact();
    thread.probes.Compact();
    const bool is_empty = thread.jumps.bytes.empty() && thread.probes.bytes.empty();
    if (is_empty) {
      threads_.erase(it++);
    } else {
      ++it;
    }
  }
}

}  // namespace proftrace
