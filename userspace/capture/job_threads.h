// The tracer's numbers of a job's threads. Code in the job knows their numbers in the job's own PID
// namespace alone.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>

#include "userspace/model/ids.h"

namespace proftrace {

class JobThreads {
 public:
  explicit JobThreads(Pid pid);

  // Of a thread that had ended before it was asked for: a number that no thread has.
  uint32_t NumberOf(uint32_t own_number);

 private:
  void Look();

  Pid pid_;
  bool is_same_namespace_;
  absl::flat_hash_map<uint32_t, uint32_t> numbers_;
  int64_t last_look_ns_ = 0;
};

}  // namespace proftrace
