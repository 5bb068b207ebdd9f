#include "userspace/capture/record_merger.h"

#include <cstring>
#include <limits>

#include "bpf/abi/records.h"

namespace proftrace {
namespace {

constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

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

void RecordMerger::Queue::Compact() {
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(head));
  head = 0;
}

void RecordMerger::Emit(int64_t until_ns, const OnRecord& on_record) {
  for (auto it = threads_.begin(); it != threads_.end();) {
    Thread& thread = it->second;
    while (true) {
      const auto time_of = [](const Queue& queue) {
        if (queue.head >= queue.bytes.size()) return kNone;
        return static_cast<int64_t>(HeadOf(queue.bytes, queue.head).time_ns);
      };
      const int64_t jump_ns = time_of(thread.jumps);
      const int64_t probe_ns = time_of(thread.probes);
      const bool is_jump = jump_ns <= probe_ns;
      Queue& queue = is_jump ? thread.jumps : thread.probes;
      if ((is_jump ? jump_ns : probe_ns) > until_ns || queue.head >= queue.bytes.size()) break;
      const size_t bytes = size_t{HeadOf(queue.bytes, queue.head).words} * 8;
      on_record({queue.bytes.data() + queue.head, bytes},
                is_jump ? RecordOrigin::kJump : RecordOrigin::kProbe);
      queue.head += bytes;
    }
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
