// Estimates how full a device can be of a kernel's threads, which Kineto shows for each kernel.
#pragma once

#include <optional>

#include "userspace/model/device_activity.h"

namespace proftrace {

struct KernelLoad {
  double blocks_a_multiprocessor = 0;
  double warps_a_multiprocessor = 0;
  // "est. achieved occupancy %"; nullopt: not enough is known about the device, or the kernel does
  // not fit on it.
  std::optional<int> occupancy_percent;
};

// Estimates a kernel's load; nullopt where the number of the device's multiprocessors is not known.
// The rules are those of NVIDIA's occupancy calculator (CUDA C++ Programming Guide, hardware
// implementation and compute capabilities), with Kineto's reading of "achieved"
// (libkineto/src/DeviceProperties.cpp): blocks are spread evenly over all multiprocessors, and as
// many as fit are resident at once.
std::optional<KernelLoad> LoadOf(const KernelFacts& kernel, const GpuDevice& device);

}  // namespace proftrace
