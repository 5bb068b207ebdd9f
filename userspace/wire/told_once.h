// Tells which records later ones need, however much later these come: records that say which
// process a thread belongs to, and definitions, which later records refer to by number. A part of a
// recording gets such records from before its begin (capture_part.h); a flight recorder keeps them
// when it drops their blocks (flight_keeper.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "bpf/abi/records.h"

namespace proftrace {

// Returns whether records of this kind define something that later records refer to by number.
bool IsDefinition(uint8_t kind);
// Returns whether records of this kind are definitions, or are needed to understand definitions and
// their uses.
bool IsToldOnce(uint8_t kind);

// Names the thing that a record defines. A later definition with the same key replaces it.
struct DefinitionKey {
  uint8_t kind = 0;
  uint32_t pid = 0;  // 0: the number holds for the whole recording
  uint64_t id = 0;

  auto operator<=>(const DefinitionKey&) const = default;
  template <typename H>
  friend H AbslHashValue(H state, const DefinitionKey& key) {
    return H::combine(std::move(state), key.kind, key.pid, key.id);
  }
};

// Returns the key of the definition that the record is or begins; nullopt: it is no definition.
// Kinds of IsDefinition() without a rule of their own have the number in head.sp; it holds for the
// whole recording, and the definition is forgotten some time after the process in its head has
// ended. In ascending order of keys a definition comes before others that refer to it.
std::optional<DefinitionKey> DefinitionOf(std::span<const std::byte> record);

// Returns the key of the definition that the record continues, because long names come in parts;
// nullopt: it continues none.
std::optional<DefinitionKey> ContinuationOf(std::span<const std::byte> record);

// Returns the time at which the record's event ended, in CLOCK_MONOTONIC. Most records tell of a
// moment.
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

}  // namespace proftrace
