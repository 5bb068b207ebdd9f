// Finds the place in TorchScript's graphs at which a row begins. The record with the place
// (PT_SCRIPT_STACK) comes right before the row's begin, from the same thread. Not thread-safe.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "bpf/abi/records.h"
#include "userspace/model/script_place.h"
#include "userspace/wire/metadata.h"

namespace proftrace {

class ScriptDecoder {
 public:
  // Takes a PT_SCRIPT_STACK, which has at least its smallest size. `image`: that of its process.
  // Returns false where the record is malformed.
  bool OnRecord(std::span<const std::byte> record, uint32_t image);
  // Forgets the thread's place, because records were lost: the next row may be another one.
  void OnLoss(uint32_t tid) { next_.erase(tid); }
  void OnLossAnywhere() { next_.clear(); }
  // Returns the place of the row that a record with this head begins.
  ScriptId Take(const abi::pt_record& head);

  // Returns the number of rows whose place is unknown because there were too many different places.
  uint64_t others() const { return others_; }
  // Returns the table that ScriptId is an index into: torch's Module Hierarchy of each place, empty
  // where a name is missing.
  std::vector<std::string> TakeTexts(const CaptureMetadata& metadata);

 private:
  std::map<std::vector<ScriptKey>, ScriptId> ids_;
  absl::flat_hash_map<uint32_t, ScriptId> next_;  // by tid
  uint64_t others_ = 0;
};

}  // namespace proftrace
