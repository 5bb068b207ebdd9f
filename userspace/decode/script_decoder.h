// Which place in TorchScript's graphs a row is at: each is told of right before the row's begin, by
// the same thread (PT_SCRIPT_STACK). Not thread-safe.
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
  // Takes a PT_SCRIPT_STACK with its smallest size at least. `image`: of its process. False: it is
  // malformed.
  bool OnRecord(std::span<const std::byte> record, uint32_t image);
  // Records of the thread were lost: the next row may be another one.
  void OnLoss(uint32_t tid) { next_.erase(tid); }
  void OnLossAnywhere() { next_.clear(); }
  // Returns the place that a record with this head begins a row at.
  ScriptId Take(const abi::pt_record& head);

  // Rows whose place was told after there were too many others.
  uint64_t others() const { return others_; }
  // Returns what ScriptId indexes: torch's Module Hierarchy, empty where a name is missing.
  std::vector<std::string> TakeTexts(const CaptureMetadata& metadata);

 private:
  std::map<std::vector<ScriptKey>, ScriptId> ids_;
  absl::flat_hash_map<uint32_t, ScriptId> next_;  // by tid
  uint64_t others_ = 0;
};

}  // namespace proftrace
