#include "userspace/patch/patch_ring.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "bpf/abi/record_kinds.h"
#include "symbols/plan/process.h"
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

constexpr uint32_t kFewestWords = 4096;
constexpr uint64_t kTableEnd = PATCH_RING_HEADER_BYTES + (PATCH_SLOTS << PATCH_SLOT_SHIFT);
// How long Python's end waits for reading threads at most. By then each of them has got a
// processor, even beside a thread with real-time priority, because the kernel leaves ordinary
// threads a twentieth of each second.
constexpr int64_t kEndWaitNs = 2'000'000'000;
// How long a record that others follow may stay unfinished: its thread may be in a signal handler,
// or may wait for a processor in the middle of the record.
constexpr int64_t kPatienceNs = 1'000'000'000;
// Slots of ended threads are freed only if more slots than this are in use. Most jobs never have so
// many threads.
constexpr size_t kKeptSlots = PATCH_SLOTS / 4;
// After so many words, writers are told that there is room again, before the whole slot has been
// read.
constexpr uint64_t kToldWords = 1u << 13;
constexpr uint64_t kCounterBytes = PATCH_COUNTERS * 8;  // of one slot
// How many words one Drain() looks at, at most, which takes 10 to 20 ms of a processor's time. The
// rest is left for the next Drain().
constexpr uint64_t kMostDrainedWords = 1u << 20;
static_assert(PATCH_END_KIND == abi::PT_SPAN_END);

template <typename T>
T Load(const T* at) {
  return std::atomic_ref<T>(*const_cast<T*>(at)).load(std::memory_order_acquire);
}

template <typename T>
void Store(T* at, T value) {
  std::atomic_ref<T>(*at).store(value, std::memory_order_release);
}

bool Exchange(uint64_t* at, uint64_t before, uint64_t after) {
  return std::atomic_ref<uint64_t>(*at).compare_exchange_strong(before, after);
}

bool IsOwned(uint64_t owner) { return owner > PATCH_SLOT_TAKEN; }

// Whether jobs may write records of this kind. Only the tracer's own programs may write the other
// kinds, which tell of forks, ends, other threads' losses and the cost of probes, or are samples
// and system activity.
bool IsForJobsToSay(uint8_t kind) {
  switch (kind) {
    case abi::PT_FORK:
    case abi::PT_EXEC:
    case abi::PT_THREAD_EXIT:
    case abi::PT_LOSS_ANYWHERE:
      return false;
    default:
      return abi::kRecordKinds[kind].least_bytes > 0 &&
             (kind <= abi::PT_PYTHON_MODULE || kind == abi::PT_SCRIPT_STACK);
  }
}

uint64_t SlotBytes(uint32_t words) { return uint64_t{words} * 8 + PATCH_SLACK_BYTES; }

}  // namespace

uint64_t PatchRing::JumpsOffset(const PatchRingOptions& options) {
  return kTableEnd + PATCH_SLOTS * SlotBytes(options.slot_words);
}

uint64_t PatchRing::Bytes(const PatchRingOptions& options) {
  const uint64_t end = JumpsOffset(options) + (options.jumps.size() + options.more_jumps) * 8 +
                       PATCH_DEMOTION_BYTES + PATCH_SLOTS * kCounterBytes;
  const uint64_t inputs = options.reads_inputs ? PATCH_SLOTS * PATCH_INPUTS_BYTES : 0;
  return end + inputs + (options.reads_stacks ? PATCH_SLOTS * PATCH_STACKS_BYTES : 0);
}

uint64_t PatchRing::InputsOffset() const { return CountersOffset(PATCH_SLOTS); }

uint64_t PatchRing::StacksOffset(size_t index) const {
  const uint64_t inputs = options_.reads_inputs ? PATCH_SLOTS * PATCH_INPUTS_BYTES : 0;
  return InputsOffset() + inputs + index * PATCH_STACKS_BYTES;
}

uint64_t PatchRing::WordsOffset(size_t index) const {
  return kTableEnd + index * SlotBytes(options_.slot_words);
}

uint64_t PatchRing::DemotionsOffset() const {
  return JumpsOffset(options_) + (options_.jumps.size() + options_.more_jumps) * 8;
}

uint64_t PatchRing::CountersOffset(size_t index) const {
  return DemotionsOffset() + PATCH_DEMOTION_BYTES + index * kCounterBytes;
}

absl::StatusOr<std::unique_ptr<PatchRing>> PatchRing::Make(const UniqueFd& memory,
                                                           const PatchRingOptions& options,
                                                           ThreadNumber thread_number) {
  if (!std::has_single_bit(options.slot_words) || options.slot_words < kFewestWords ||
      options.regions.size() > PATCH_RING_MOST_REGIONS) {
    return Fail(ExitCode::kBug, "the ring cannot be laid out so");
  }
  std::unique_ptr<PatchRing> ring(new PatchRing(options, std::move(thread_number)));
  void* at = mmap(nullptr, Bytes(options), PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (at == MAP_FAILED) {
    return Fail(ExitCode::kHostUnfit, "the ring cannot be mapped: " + ErrnoText(errno));
  }
  ring->memory_ = static_cast<std::byte*>(at);
  ring->slots_.resize(PATCH_SLOTS);
  ring->LayOut();
  return ring;
}

PatchRing::~PatchRing() {
  if (memory_ != nullptr) munmap(memory_, Bytes(options_));
}

void PatchRing::LayOut() {
  *HeaderField<uint32_t>(PATCH_RING_VERSION) = PATCH_RING_VERSION_VALUE;
  *HeaderField<uint32_t>(PATCH_RING_SLOTS) = PATCH_SLOTS;
  *HeaderField<int32_t>(PATCH_RING_TID_OFFSET) = options_.tid_offset;
  *HeaderField<uint32_t>(PATCH_RING_SALT) = options_.salt;
  *HeaderField<uint64_t>(PATCH_RING_MASK) = options_.slot_words - 1;
  *HeaderField<uint64_t>(PATCH_RING_LIMIT) = options_.slot_words - PATCH_HANDLER_WORDS;
  *HeaderField<uint64_t>(PATCH_RING_SELF) = options_.address;
  if (options_.reads_inputs) {
    *HeaderField<uint64_t>(PATCH_RING_INPUTS) = options_.address + InputsOffset();
  }
  *HeaderField<uint64_t>(PATCH_RING_DEMOTIONS) = options_.address + DemotionsOffset();
  if (options_.reads_stacks && options_.python.has_value()) {
    static_assert(PATCH_RING_PYTHON_LAYOUT + sizeof(abi::pt_python_layout) <= PATCH_RING_END_WAIT);
    static_assert(PATCH_RING_SCRIPT_LAYOUT + sizeof(abi::pt_script_layout) <=
                  PATCH_RING_UNSLOTTED_THREADS);
    *HeaderField<uint64_t>(PATCH_RING_FINALIZING) = options_.python->finalizing;
    *HeaderField<uint64_t>(PATCH_RING_PYTHON_END) = options_.python->end;
    *HeaderField<abi::pt_python_layout>(PATCH_RING_PYTHON_LAYOUT) = options_.python->layout;
    *HeaderField<abi::pt_script_layout>(PATCH_RING_SCRIPT_LAYOUT) = options_.python->scripts;
  }
  for (size_t i = 0; i < PATCH_SLOTS; ++i) {
    *SlotField<uint64_t>(i, PATCH_SLOT_WORDS) = options_.address + WordsOffset(i);
    *SlotField<uint64_t>(i, PATCH_SLOT_COUNTS) = options_.address + CountersOffset(i);
    if (options_.reads_stacks) {
      *SlotField<uint64_t>(i, PATCH_SLOT_STACKS) = options_.address + StacksOffset(i);
    }
  }
  const size_t regions = std::min<size_t>(options_.regions.size(), PATCH_RING_MOST_REGIONS);
  std::memcpy(memory_ + PATCH_RING_REGIONS, options_.regions.data(),
              regions * sizeof(AddressRange));
  *HeaderField<uint64_t>(PATCH_RING_JUMPS) = options_.jumps.size();
  std::memcpy(memory_ + JumpsOffset(options_), options_.jumps.data(),
              options_.jumps.size() * sizeof(uint64_t));
  const auto owner = static_cast<uint32_t>(getpid());
  const absl::StatusOr<ProcessInfo> self = ReadProcessInfo(Pid{owner});
  *HeaderField<uint32_t>(PATCH_RING_OWNER) = owner;
  *HeaderField<uint64_t>(PATCH_RING_OWNER_START) = self.ok() ? self->start_ticks : 0;
  Store(HeaderField<uint64_t>(PATCH_RING_MAGIC), uint64_t{PATCH_RING_MAGIC_VALUE});
}

bool PatchRing::Announce(const std::vector<AddressRange>& regions,
                         const std::vector<uint64_t>& jumps) {
  if (options_.regions.size() + regions.size() > PATCH_RING_MOST_REGIONS ||
      jumps.size() > options_.more_jumps) {
    return false;
  }
  // A run may be killed after any of these steps. A region counts as announced once its address is
  // written, so the address comes last.
  for (const AddressRange& region : regions) {
    const size_t at = PATCH_RING_REGIONS + options_.regions.size() * sizeof(AddressRange);
    Store(HeaderField<uint64_t>(at + offsetof(AddressRange, bytes)), region.bytes);
    Store(HeaderField<uint64_t>(at + offsetof(AddressRange, address)), region.address);
    options_.regions.push_back(region);
  }
  for (const uint64_t jump : jumps) {
    Store(HeaderField<uint64_t>(JumpsOffset(options_) + options_.jumps.size() * 8), jump);
    options_.jumps.push_back(jump);
    --options_.more_jumps;
  }
  Store(HeaderField<uint64_t>(PATCH_RING_JUMPS), uint64_t{options_.jumps.size()});
  return true;
}

void PatchRing::Retract(size_t regions, size_t jumps) {
  options_.jumps.resize(options_.jumps.size() - jumps);
  options_.more_jumps += jumps;
  Store(HeaderField<uint64_t>(PATCH_RING_JUMPS), uint64_t{options_.jumps.size()});
  for (; regions > 0; --regions) {
    options_.regions.pop_back();
    const size_t at = PATCH_RING_REGIONS + options_.regions.size() * sizeof(AddressRange);
    Store(HeaderField<uint64_t>(at), uint64_t{0});
  }
}

int64_t PatchRing::LetWrite(int64_t ns) {
  clock_.Advance();
  const int64_t now_ns = MonotonicNs();
  const int64_t lapse_ns = deadline_ns_ == 0 ? 0 : std::max<int64_t>(0, now_ns - deadline_ns_);
  for (size_t i = 0; lapse_ns > 0 && i < slots_.size(); ++i) {
    const bool is_used = IsOwned(Load(SlotField<uint64_t>(i, PATCH_SLOT_OWNER)));
    if (is_used && slots_[i].lapse_ns == 0) slots_[i].lapse_ns = deadline_ns_;
  }
  if (lapse_ns > 0) NoteLossOfStacks();
  deadline_ns_ = now_ns + ns;
  Store(HeaderField<uint64_t>(PATCH_RING_DEADLINE), clock_.CounterAfter(ns));
  return lapse_ns;
}

void PatchRing::Stop() {
  deadline_ns_ = 0;
  Store(HeaderField<uint64_t>(PATCH_RING_DEADLINE), uint64_t{0});
}

void PatchRing::SetEndsAreSeen(bool seen) {
  Store(HeaderField<uint32_t>(PATCH_RING_ENDS_ARE_SEEN), uint32_t{seen});
}

bool PatchRing::ends_are_seen() const {
  return Load(HeaderField<uint32_t>(PATCH_RING_ENDS_ARE_SEEN)) != 0;
}

void PatchRing::LetReadStacks() {
  if (!options_.reads_stacks || !options_.python.has_value()) return;
  *HeaderField<uint64_t>(PATCH_RING_END_WAIT) = clock_.CounterAfter(kEndWaitNs) - clock_.now();
  Store(HeaderField<int32_t>(PATCH_RING_PYTHON_STATE), options_.python->state_offset);
}

bool PatchRing::are_stacks_read() const {
  return Load(HeaderField<uint32_t>(PATCH_RING_PYTHON_STATE)) != 0;
}

void PatchRing::NoteLossOfStacks() {
  auto* lost = HeaderField<uint32_t>(PATCH_RING_STACKS_LOST);
  Store(lost, Load(lost) + 1);
}

bool PatchRing::CopyRecord(size_t index, uint64_t position) {
  const std::byte* words = memory_ + WordsOffset(index);
  const std::byte* at = words + (position & (options_.slot_words - 1)) * 8;
  const auto* number = reinterpret_cast<const uint32_t*>(at + offsetof(abi::pt_record, pid));
  if (Load(number) != static_cast<uint32_t>(position) + options_.salt) return false;
  const auto count = std::to_integer<size_t>(at[offsetof(abi::pt_record, words)]);
  if (count < PATCH_RECORD_WORDS) return false;
  std::memcpy(record_, at, count * 8);
  // The job may have changed the length since it was read.
  record_[offsetof(abi::pt_record, words)] = static_cast<std::byte>(count);
  return true;
}

uint64_t PatchRing::NextRecord(size_t index, uint64_t position, uint64_t tail) {
  while (++position < tail) {
    ++looked_at_words_;
    if (CopyRecord(index, position)) return position;
  }
  return tail;
}

void PatchRing::NoteDamage(Slot* slot) {
  ++counts_.damages;
  ++slot->missing;
}

void PatchRing::TellMissing(Slot* slot, uint32_t tid, const OnRecord& on_record) {
  abi::pt_pointer_record loss{};
  loss.head.time_ns = slot->last_ns;
  loss.head.pid = Raw(options_.pid);
  loss.head.tid = tid;
  loss.head.kind = abi::PT_LOSS;
  loss.head.words = PATCH_LOSS_WORDS;
  loss.value = std::exchange(slot->missing, 0);
  on_record(std::as_bytes(std::span(&loss, 1)));
}

uint64_t PatchRing::DrainSlot(size_t index, const OnRecord& on_record) {
  Slot& slot = slots_[index];
  const uint64_t tail = Load(SlotField<uint64_t>(index, PATCH_SLOT_TAIL));
  uint64_t taken = 0;
  uint64_t told = slot.head;
  if (tail - slot.head > options_.slot_words) {
    // No writer of proftrace can have moved the tail so far.
    NoteDamage(&slot);
    NoteLossOfStacks();
    slot.head = tail;
  }
  while (slot.head != tail && looked_at_words_ < kMostDrainedWords) {
    if (!CopyRecord(index, slot.head)) {
      const int64_t now_ns = MonotonicNs();
      if (slot.waits_since_ns == 0) slot.waits_since_ns = now_ns;
      if (now_ns - slot.waits_since_ns < kPatienceNs) break;
      const uint64_t next = NextRecord(index, slot.head, tail);
      if (next == tail) {
        slot.waits_since_ns = now_ns;  // the search takes time, so it is not repeated at once
        break;
      }
      ++counts_.abandoned;
      ++slot.missing;
      NoteLossOfStacks();
      slot.head = next;
    }
    slot.waits_since_ns = 0;
    if (slot.head - told > kToldWords) {
      told = slot.head;
      Store(SlotField<uint64_t>(index, PATCH_SLOT_HEAD), told);
    }
    auto* record = reinterpret_cast<abi::pt_record*>(record_);
    if (record->time_ns > clock_.now()) break;  // the next Drain() can convert this time
    slot.head += record->words;
    looked_at_words_ += record->words;
    if (record->tid != slot.own_number) {
      slot.number = thread_number_(record->tid);
      slot.own_number = record->tid;
    }
    if (slot.number == 0 || !IsForJobsToSay(record->kind)) {
      slot.own_number = 0;
      NoteDamage(&slot);
      continue;
    }
    record->time_ns = static_cast<uint64_t>(clock_.ToNs(record->time_ns));
    // A loss record gets the time of the record before it: the time of its writing, right before
    // the record that follows, may be much later than the loss.
    if (record->kind == abi::PT_LOSS && slot.last_ns != 0) record->time_ns = slot.last_ns;
    record->pid = Raw(options_.pid);
    record->tid = slot.number;
    if (slot.lapse_ns != 0 && static_cast<int64_t>(record->time_ns) > slot.lapse_ns) {
      slot.lapse_ns = 0;
      ++counts_.lapses;
      ++slot.missing;
    }
    if (slot.missing > 0) TellMissing(&slot, record->tid, on_record);
    slot.last_ns = record->time_ns;
    slot.last_tid = record->tid;
    if (record->kind == abi::PT_LOSS && record->words >= PATCH_LOSS_WORDS) {
      uint64_t lost = 0;
      std::memcpy(&lost, record_ + sizeof(abi::pt_record), sizeof(lost));
      slot.told_lost += lost;
    }
    on_record({record_, size_t{record->words} * 8});
    ++taken;
  }
  Store(SlotField<uint64_t>(index, PATCH_SLOT_HEAD), slot.head);
  return taken;
}

uint64_t PatchRing::Drain(const OnRecord& on_record) {
  clock_.Advance();
  uint64_t taken = 0;
  looked_at_words_ = 0;
  for (size_t i = 0; i < slots_.size(); ++i) {
    // Begins with the slot at which the last Drain() had to stop.
    const size_t index = (next_slot_ + i) % slots_.size();
    if (looked_at_words_ >= kMostDrainedWords) {
      next_slot_ = index;
      break;
    }
    if (Load(SlotField<uint64_t>(index, PATCH_SLOT_OWNER)) != 0)
      taken += DrainSlot(index, on_record);
  }
  is_drained_ = looked_at_words_ < kMostDrainedWords;
  counts_.records += taken;
  return taken;
}

void PatchRing::ResetSlot(size_t index) {
  Slot& slot = slots_[index];
  auto* lost = SlotField<uint64_t>(index, PATCH_SLOT_LOST);
  slot.told_lost += Load(lost);
  Store(lost, uint64_t{0});
  Store(SlotField<uint32_t>(index, PATCH_SLOT_ANNOUNCED), uint32_t{0});
  Store(SlotField<uint64_t>(index, PATCH_SLOT_ENTER), uint64_t{0});
  slot.last_ns = 0;
  slot.last_tid = 0;
  slot.own_number = 0;
  slot.missing = 0;
  slot.lapse_ns = 0;
  slot.waits_since_ns = 0;
}

void PatchRing::FreeSlots(const HasEnded& has_ended) {
  size_t used = 0;
  for (size_t i = 0; i < slots_.size(); ++i) {
    used += IsOwned(Load(SlotField<uint64_t>(i, PATCH_SLOT_OWNER)));
  }
  if (used <= kKeptSlots) return;
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    auto* at = SlotField<uint64_t>(i, PATCH_SLOT_OWNER);
    const uint64_t owner = Load(at);
    if (!IsOwned(owner) || slot.last_tid == 0) continue;
    if (!has_ended(owner & ~uint64_t{PATCH_SLOT_RETIRED}, slot.last_tid)) continue;
    if (Load(SlotField<uint64_t>(i, PATCH_SLOT_TAIL)) != slot.head) continue;
    if ((owner & PATCH_SLOT_RETIRED) == 0) {
      // A new thread with its control block at the same address may have found the slot already
      // without having written into it. It takes the slot back when it looks again, and as long as
      // that thread lives, has_ended() returns false.
      Exchange(at, owner, owner | PATCH_SLOT_RETIRED);
    } else if (Exchange(at, owner, PATCH_SLOT_TAKEN)) {
      ResetSlot(i);
      Store(at, uint64_t{PATCH_SLOT_FREED});
    }
  }
}

bool PatchRing::Demote(uint16_t site, bool records_ends) {
  auto known = std::find(demoted_sites_.begin(), demoted_sites_.end(), site);
  if (known == demoted_sites_.end()) {
    if (demoted_sites_.size() + 1 >= PATCH_COUNTERS) return false;
    known = demoted_sites_.insert(known, site);
  }
  const auto counter = static_cast<unsigned>(known - demoted_sites_.begin()) + 1;
  Store(HeaderField<uint16_t>(DemotionsOffset() + size_t{site} * 2),
        static_cast<uint16_t>(counter << 1 | (records_ends ? 0 : 1)));
  return true;
}

uint64_t PatchRing::CountedCalls(uint16_t site) const {
  const auto known = std::find(demoted_sites_.begin(), demoted_sites_.end(), site);
  if (known == demoted_sites_.end()) return 0;
  const auto counter = static_cast<size_t>(known - demoted_sites_.begin()) + 1;
  uint64_t calls = 0;
  for (size_t i = 0; i < PATCH_SLOTS; ++i) {
    if (Load(SlotField<uint64_t>(i, PATCH_SLOT_OWNER)) == 0) continue;
    calls += Load(HeaderField<uint64_t>(CountersOffset(i) + counter * 8));
  }
  return calls;
}

PatchRingCounts PatchRing::counts() const {
  PatchRingCounts counts = counts_;
  counts.read_failed = Load(HeaderField<uint64_t>(PATCH_RING_READ_FAILED));
  counts.unslotted = Load(HeaderField<uint64_t>(PATCH_RING_UNSLOTTED));
  for (size_t i = 0; i < 1u << PATCH_RING_UNSLOTTED_BITS; i += 64) {
    counts.unslotted_threads += static_cast<uint64_t>(
        std::popcount(Load(HeaderField<uint64_t>(PATCH_RING_UNSLOTTED_THREADS + i / 8))));
  }
  counts.lost = counts.unslotted;
  for (size_t i = 0; i < slots_.size(); ++i) {
    counts.lost += slots_[i].told_lost + Load(SlotField<uint64_t>(i, PATCH_SLOT_LOST));
  }
  return counts;
}

}  // namespace proftrace
