// Keeps the numbers that process groups of gloo give their collectives, and the groups of messages,
// which have no number. The record with a number comes right before that of its work, from the same
// thread.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "bpf/abi/records.h"
#include "userspace/model/operator_inputs.h"
#include "userspace/wire/metadata.h"

namespace proftrace {

class GroupCalls {
 public:
  // `metadata` must outlive this.
  explicit GroupCalls(const CaptureMetadata& metadata) : metadata_(metadata) {}

  // Takes a PT_GROUP_CALL.
  void OnRecord(const abi::pt_pair_record& record);
  // Forgets the thread's number, because records were lost: the next work may belong to a call that
  // was not seen.
  void OnLoss(uint32_t tid) { numbers_.erase(tid); }
  void OnLossAnywhere() { numbers_.clear(); }

  // Returns the known facts of the work that the thread makes, under the names that torch has for
  // them in rows record_param_comms: "Seq", and the name and the members of the group where the
  // group is known. Empty: nothing was seen of the work's group. A number that no work took, as
  // those of a monitored barrier, goes to no message.
  std::vector<KeywordValue> Take(uint32_t pid, uint32_t tid, bool is_message);

 private:
  struct Number {
    uint32_t pid = 0;
    uint64_t group = 0;
    uint64_t number = 0;  // 0 = a message
    bool is_same_group = false;
  };

  const CaptureMetadata& metadata_;
  absl::flat_hash_map<uint32_t, Number> numbers_;  // by tid
  // The last number of each group, by process and address.
  absl::flat_hash_map<std::pair<uint32_t, uint64_t>, uint64_t> last_;
};

}  // namespace proftrace
