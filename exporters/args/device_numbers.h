// Gives GPUs numbers that mean the same in all processes, because with CUDA_VISIBLE_DEVICES each
// process counts its GPUs from 0 on.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "userspace/model/timeline.h"

namespace proftrace {

// A GPU gets the number that the first process with it uses. Where another GPU already has this
// number, it gets the next number that no process uses. Devices whose uuid is not known (older
// captures) are identified by their numbers alone.
class DeviceNumbers {
 public:
  explicit DeviceNumbers(const Timeline& timeline);

  // Returns the number of a process's device. kNowhere, and devices without a device record, keep
  // the number that they have.
  uint32_t Of(Pid pid, uint32_t device) const;
  // Returns the name of a GPU: "GPU 1"; or "GPU 0 of PID 4711" where no process knows the GPU by
  // its number here.
  std::string Label(uint32_t number) const;

 private:
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> numbers_;  // by process and its number
  std::map<uint32_t, std::string> labels_;                     // of numbers that no process uses
};

}  // namespace proftrace
