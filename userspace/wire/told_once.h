// Which records are needed by others that come later, however much: what says which process a
// thread is of, and what is told of once and then meant by its number. A part of a recording holds
// those from before it (capture_part.h), a flight recorder outlives the blocks that had them
// (flight_keeper.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "bpf/abi/records.h"

namespace proftrace {

// Whether records of this kind tell of something once: later ones mean it by its number.
bool IsDefinition(uint8_t kind);
// Whether that is so, or definitions and what uses them cannot be understood without the record.
bool IsToldOnce(uint8_t kind);

// Names what a record defines: a later one with the same key takes its place.
struct DefinitionKey {
  uint8_t kind = 0;
  uint32_t pid = 0;  // 0: its number is the whole recording's
  uint64_t id = 0;

  auto operator<=>(const DefinitionKey&) const = default;
  template <typename H>
  friend H AbslHashValue(H state, const DefinitionKey& key) {
    return H::combine(std::move(state), key.kind, key.pid, key.id);
  }
};

// Returns the definition that the record is, or begins; nullopt for all others. A kind of
// IsDefinition() that has no rule of its own has its number in head.sp, one for the whole
// recording; it is forgotten some time after the process in its head has ended. In ascending order
// of their keys definitions come before those that refer to them.
std::optional<DefinitionKey> DefinitionOf(std::span<const std::byte> record);

// Returns the definition that the record goes on with: names come in parts.
std::optional<DefinitionKey> ContinuationOf(std::span<const std::byte> record);

// Returns when what the record tells of was over, CLOCK_MONOTONIC: most tell of a moment.
int64_t EndOf(const abi::pt_record& head, std::span<const std::byte> record);

// Calls visit(head, record) for each whole record of `batch`, up to the first damaged one.
template <typename Visitor>
void ForEachRecord(std::span<const std::byte> batch, Visitor&& visit) {
  size_t at = 0;
  while (batch.size() - at >= sizeof(abi::pt_record)) {
    abi::pt_record head;
    std::memcpy(&head, batch.data() + at, sizeof(head));
    const size_t bytes = size_t{head.words} * 8;
    if (bytes < sizeof(head) || bytes > batch.size() - at) return;
    visit(head, batch.subspan(at, bytes));
    at += bytes;
  }
}

// A record of type T; what a shorter one lacks is 0.
template <typename T>
T ReadRecord(std::span<const std::byte> bytes) {
  T record{};
  std::memcpy(&record, bytes.data(), bytes.size() < sizeof(T) ? bytes.size() : sizeof(T));
  return record;
}

}  // namespace proftrace
