#include "userspace/agent/name_table.h"

#include <string.h>

#include "userspace/agent/system.h"

namespace proftrace::agent {
namespace {

constexpr size_t kMostUsed = NameTable::kSlots / 4 * 3;  // a fuller table would be slow to search

struct Hashes {
  uint64_t id;
  uint64_t check;
};

uint64_t Mix(uint64_t value) {
  value ^= value >> 32;
  value *= 0x9e3779b97f4a7c15;
  return value ^ value >> 29;
}

// Hashes eight bytes at a time, by two independent multiplications.
Hashes HashOf(const char* text, size_t length) {
  uint64_t first = length * 0xff51afd7ed558ccd;
  uint64_t second = ~length;
  const auto add = [&](uint64_t word) {
    first = (first ^ word) * 0xc4ceb9fe1a85ec53;
    first ^= first >> 31;
    second = (second + word) * 0xd6e8feb86659fd93;
    second ^= second >> 28;
  };
  size_t at = 0;
  for (; at + 8 <= length; at += 8) {
    uint64_t word;
    memcpy(&word, text + at, 8);
    add(word);
  }
  uint64_t last = 0;
  memcpy(&last, text + at, length - at);
  add(last);
  return Hashes{Mix(first) | 1, Mix(second)};
}

}  // namespace

NameTable::NameTable(void* memory) : slots_(static_cast<Slot*>(memory)) {}

void NameTable::Clear() {
  GiveBack(slots_, kBytes);
  used_ = 0;
}

bool NameTable::Intern(const char* text, int pid, RingWriter* ring, uint64_t* id) {
  *id = 0;
  if (text == nullptr || text[0] == '\0') return true;
  const size_t length = strnlen(text, PT_GPU_NAME_LIMIT);
  const Hashes hashes = HashOf(text, length);
  uint64_t candidate = hashes.id;
  size_t place = candidate % kSlots;
  while (slots_[place].id != 0) {
    if (slots_[place].id == candidate) {
      if (slots_[place].check == hashes.check) {
        *id = candidate;
        return true;
      }
      candidate += 2;  // another text has this id
    }
    place = (place + 1) % kSlots;
  }
  if (!Tell(candidate, text, length, pid, ring)) return false;
  if (used_ < kMostUsed) {
    slots_[place] = Slot{candidate, hashes.check};
    ++used_;
  }
  *id = candidate;
  return true;
}

bool NameTable::Tell(uint64_t id, const char* text, size_t length, int pid, RingWriter* ring) {
  const size_t parts = (length + PT_GPU_TEXT_BYTES - 1) / PT_GPU_TEXT_BYTES;
  if (!ring->HasRoom(parts * sizeof(abi::pt_gpu_name_record))) return false;
  for (size_t offset = 0; offset < length; offset += PT_GPU_TEXT_BYTES) {
    const size_t left = length - offset;
    const size_t part = left < PT_GPU_TEXT_BYTES ? left : PT_GPU_TEXT_BYTES;
    const size_t padded = (part + 7) / 8 * 8;
    abi::pt_gpu_name_record record;
    record.head.time_ns = 0;
    record.head.pid = static_cast<uint32_t>(pid);
    record.head.tid = 0;
    record.id = id;
    record.length = static_cast<uint32_t>(length);
    record.offset = static_cast<uint32_t>(offset);
    memcpy(record.text, text + offset, part);
    memset(record.text + part, 0, padded - part);
    ring->Write(&record.head, static_cast<uint32_t>(PT_GPU_NAME_HEAD_BYTES + padded),
                abi::PT_GPU_NAME);
  }
  return true;
}

}  // namespace proftrace::agent
