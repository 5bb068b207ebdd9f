// A source that leaves out the records of other processes.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "userspace/wire/record_source.h"

namespace proftrace {

// Gives the records of some processes, and records that concern all processes. `source` must
// outlive this; nullptr: there are no records.
class RecordsOfProcesses : public RecordSource {
 public:
  RecordsOfProcesses(RecordSource* source, std::set<uint32_t> pids)
      : source_(source), pids_(std::move(pids)) {}

  absl::StatusOr<RecordBatch> Next() override;

 private:
  bool IsWanted(std::span<const std::byte> record) const;

  RecordSource* source_;
  std::set<uint32_t> pids_;
  std::vector<std::byte> records_;
};

}  // namespace proftrace
