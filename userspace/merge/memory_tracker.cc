#include "userspace/merge/memory_tracker.h"

#include <algorithm>
#include <limits>

#include "userspace/base/saturating.h"
#include "userspace/merge/thread_key.h"

namespace proftrace {
namespace {

constexpr int8_t kNoDeviceIndex = -1;

// A device's totals are shown as int64_t, as torch does.
int64_t Signed(uint64_t bytes) {
  return static_cast<int64_t>(
      std::min<uint64_t>(bytes, static_cast<uint64_t>(std::numeric_limits<int64_t>::max())));
}

}  // namespace

void MemoryTracker::Doubt(Process* process) {
  if (process->is_known) ++summary_.inconsistent_processes;
  process->is_known = false;
}

void MemoryTracker::ForgetBlocks(Process* process) {
  blocks_ -= process->live.size();
  process->live.clear();
}

bool MemoryTracker::OnLoss(Pid pid) {
  Process& process = processes_[Raw(pid)];
  const bool was_known = process.is_known;
  Doubt(&process);
  ForgetBlocks(&process);
  return was_known;
}

void MemoryTracker::OnGap() {
  any_gap_ = true;
  for (auto& [pid, process] : processes_) {
    Doubt(&process);
    ForgetBlocks(&process);
  }
}

void MemoryTracker::OnProcessEnd(Pid pid) {
  const auto it = processes_.find(Raw(pid));
  if (it == processes_.end()) return;
  blocks_ -= it->second.live.size();
  processes_.erase(it);
  absl::erase_if(threads_, [pid](const auto& entry) { return entry.first >> 32 == Raw(pid); });
}

MemoryTracker::Process& MemoryTracker::ProcessOf(const Event& event) {
  const auto [it, is_new] = processes_.try_emplace(Raw(event.pid));
  if (is_new && any_gap_) Doubt(&it->second);
  return it->second;
}

bool MemoryTracker::IsRepeated(const Event& event) const {
  const auto it = threads_.find(ThreadKey(event.pid, event.tid));
  return it != threads_.end() && it->second.last_block == event.object &&
         it->second.last_is_free == (static_cast<int64_t>(event.value) < 0);
}

bool MemoryTracker::OnAllocation(const Event& event, MemoryEvent* out) {
  if (event.value == 0) {
    ++summary_.empty_blocks;
    return false;
  }
  Process& process = ProcessOf(event);
  if (event.value > kMostBytes) {
    ++summary_.untracked;
    Doubt(&process);
    return false;
  }
  const auto known = process.live.find(event.object);
  if (known != process.live.end()) {
    // The free of the earlier block was not seen, so how much is allocated is a guess from here on.
    ++summary_.reused_blocks;
    Doubt(&process);
    known->second = event.value;
  } else if (blocks_ < most_blocks_) {
    process.live.emplace(event.object, event.value);
    ++blocks_;
  } else {
    ++summary_.untracked;
    Doubt(&process);
  }
  out->bytes = static_cast<int64_t>(event.value);
  process.allocated = SaturatingSum(process.allocated, out->bytes);
  out->total_allocated = process.allocated;
  out->total_known = process.is_known;
  return true;
}

bool MemoryTracker::OnFree(const Event& event, MemoryEvent* out) {
  if (event.object == 0) return false;  // the free of an empty block
  Process& process = ProcessOf(event);
  const auto block = process.live.find(event.object);
  if (block == process.live.end()) {
    ++summary_.unknown_frees;
    return false;
  }
  out->bytes = -static_cast<int64_t>(block->second);
  process.live.erase(block);
  --blocks_;
  process.allocated = SaturatingSum(process.allocated, out->bytes);
  out->total_allocated = process.allocated;
  out->total_known = process.is_known;
  return true;
}

std::optional<MemoryEvent> MemoryTracker::Observe(const Event& event) {
  ThreadState& thread = threads_[ThreadKey(event.pid, event.tid)];
  MemoryEvent out;
  out.time_ns = event.time_ns;
  out.address = event.object;
  out.stack = event.stack;
  out.device_index = kNoDeviceIndex;
  switch (event.type) {
    case EventType::kAllocation:
    case EventType::kFree: {
      thread.last_block = event.object;
      thread.last_is_free = event.type == EventType::kFree;
      if (!(thread.last_is_free ? OnFree(event, &out) : OnAllocation(event, &out))) {
        return std::nullopt;
      }
      return out;
    }
    case EventType::kDeviceTotals:
      thread.allocated = event.value;
      thread.reserved = event.object;
      return std::nullopt;
    case EventType::kDeviceMemory:
      if (DeviceType(event.label) == 0 && IsRepeated(event)) return std::nullopt;
      break;
    case EventType::kOutOfMemory:
      out.kind = MemoryEventKind::kOutOfMemory;
      break;
    default:
      return std::nullopt;
  }
  // The bytes of failed allocations are in no sum, so they are not bounded.
  constexpr int64_t kMostSummed = kMostBytes;
  const int64_t most =
      out.kind == MemoryEventKind::kOutOfMemory ? std::numeric_limits<int64_t>::max() : kMostSummed;
  out.bytes = std::clamp(static_cast<int64_t>(event.value), -most, most);
  out.device_type = DeviceType(event.label);
  out.device_index = DeviceIndex(event.label);
  out.total_allocated = Signed(thread.allocated);
  out.total_reserved = Signed(thread.reserved);
  out.total_known = true;
  if (out.kind == MemoryEventKind::kOutOfMemory && out.device_type == 0) {
    const Process& process = ProcessOf(event);
    out.total_allocated = process.allocated;
    out.total_known = process.is_known;
  }
  return out;
}

}  // namespace proftrace
