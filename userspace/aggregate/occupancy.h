// How full of a kernel's threads a device can be: what Kineto shows of each kernel.
#pragma once

#include <optional>

#include "userspace/model/device_activity.h"

namespace proftrace {

struct KernelLoad {
  double blocks_a_multiprocessor = 0;
  double warps_a_multiprocessor = 0;
  // "est. achieved occupancy %"; nullopt where not enough is known of the device, or the kernel
  // does not fit it.
  std::optional<int> occupancy_percent;
};

// Estimates a kernel's load; nullopt where the number of the device's multiprocessors is not known.
// The rules are those of NVIDIA's occupancy calculator (CUDA C++ Programming Guide, hardware
// implementation and compute capabilities), with Kineto's reading of "achieved"
// (libkineto/src/DeviceProperties.cpp): blocks spread evenly over all multiprocessors, and all
// resident at once as far as they fit.
std::optional<KernelLoad> LoadOf(const KernelFacts& kernel, const GpuDevice& device);

}  // namespace proftrace
