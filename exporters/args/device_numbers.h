// Numbers of GPUs that mean the same in all processes: with CUDA_VISIBLE_DEVICES each process
// counts from 0 on.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "userspace/model/timeline.h"

namespace proftrace {

// A GPU has the number of the first process that has it, unless another GPU has that: then the next
// one that is nobody's. Devices whose uuid is not known (older captures) are told apart by their
// numbers alone.
class DeviceNumbers {
 public:
  explicit DeviceNumbers(const Timeline& timeline);

  // Returns the number of a process's device. kNowhere and what no device record tells of have
  // their own numbers.
  uint32_t Of(Pid pid, uint32_t device) const;
  // "GPU 1"; "GPU 0 of PID 4711" where no process knows it by its number.
  std::string Label(uint32_t number) const;

 private:
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> numbers_;  // by process and its number
  std::map<uint32_t, std::string> labels_;                     // of those that nobody has
};

}  // namespace proftrace
