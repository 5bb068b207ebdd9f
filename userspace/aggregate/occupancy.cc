#include "userspace/aggregate/occupancy.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace proftrace {
namespace {

constexpr int64_t kWarpThreads = 32;            // as in Kineto, for every device
constexpr int64_t kRegisterUnit = 256;          // registers are given to a warp in such units
constexpr int64_t kWarpUnit = 4;                // a block's warps come in such units
constexpr int64_t kMostRegistersAThread = 255;  // compute capability 3.5 on
constexpr int64_t kMost = std::numeric_limits<int32_t>::max();

int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// Returns the number of parts of a multiprocessor that have registers of their own.
int64_t SubPartitions(const GpuDevice& device) {
  return device.compute_major == 6 && device.compute_minor == 0 ? 2 : 4;
}

// Returns the unit in which shared memory is given to a block, in bytes.
int64_t SharedUnit(const GpuDevice& device) {
  if (device.compute_major >= 8) return 128;
  return 256;
}

// Returns how many bytes of each block's shared memory the system takes.
int64_t SystemSharedBytes(const GpuDevice& device) { return device.compute_major >= 8 ? 1024 : 0; }

bool IsKnown(const GpuDevice& device) {
  return device.max_warps_a_multiprocessor > 0 && device.max_blocks_a_multiprocessor > 0 &&
         device.max_registers_a_multiprocessor > 0 &&
         device.max_shared_bytes_a_multiprocessor > 0 && device.max_threads_a_block > 0 &&
         device.max_registers_a_block > 0;
}

// Returns how many blocks may be resident at once by their registers.
int64_t BlocksByRegisters(const KernelFacts& kernel, int64_t warps, const GpuDevice& device) {
  if (kernel.registers == 0) return kMost;
  if (kernel.registers > kMostRegistersAThread) return 0;
  const int64_t a_warp = RoundUp(int64_t{kernel.registers} * kWarpThreads, kRegisterUnit);
  const int64_t parts = SubPartitions(device);
  if (a_warp * RoundUp(warps, kWarpUnit) > int64_t{device.max_registers_a_block}) return 0;
  const int64_t warps_a_part = int64_t{device.max_registers_a_multiprocessor} / parts / a_warp;
  return warps_a_part * parts / warps;
}

// Returns how many blocks may be resident at once by their shared memory.
int64_t BlocksByShared(const KernelFacts& kernel, const GpuDevice& device) {
  const int64_t own = int64_t{std::max(kernel.static_shared_bytes, 0)} +
                      int64_t{std::max(kernel.dynamic_shared_bytes, 0)};
  const int64_t bytes = RoundUp(own + SystemSharedBytes(device), SharedUnit(device));
  return bytes == 0 ? kMost : int64_t{device.max_shared_bytes_a_multiprocessor} / bytes;
}

}  // namespace

std::optional<KernelLoad> LoadOf(const KernelFacts& kernel, const GpuDevice& device) {
  if (device.multiprocessors == 0) return std::nullopt;
  const auto product = [](const int32_t(&sizes)[3]) {
    return static_cast<double>(sizes[0]) * static_cast<double>(sizes[1]) *
           static_cast<double>(sizes[2]);
  };
  const double threads = product(kernel.block);
  KernelLoad load;
  load.blocks_a_multiprocessor = product(kernel.grid) / device.multiprocessors;
  load.warps_a_multiprocessor =
      load.blocks_a_multiprocessor * threads / static_cast<double>(kWarpThreads);
  if (!IsKnown(device) || threads < 1 || threads > device.max_threads_a_block) return load;
  const int64_t warps = (static_cast<int64_t>(threads) + kWarpThreads - 1) / kWarpThreads;
  const int64_t resident =
      std::min({int64_t{device.max_warps_a_multiprocessor} / warps,
                int64_t{device.max_blocks_a_multiprocessor},
                BlocksByRegisters(kernel, warps, device), BlocksByShared(kernel, device)});
  if (resident <= 0) return load;
  // Computed in single precision as in Kineto, so that halves are rounded the same way.
  const auto blocks =
      static_cast<float>(std::min(static_cast<double>(resident), load.blocks_a_multiprocessor));
  const auto most_threads =
      static_cast<float>(device.max_warps_a_multiprocessor * static_cast<uint32_t>(kWarpThreads));
  load.occupancy_percent = static_cast<int>(std::lround(
      static_cast<double>(blocks * static_cast<float>(threads) / most_threads) * 100.0));
  return load;
}

}  // namespace proftrace
