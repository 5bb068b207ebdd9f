#include "exporters/args/device_numbers.h"

#include <array>
#include <set>
#include <vector>

namespace proftrace {

DeviceNumbers::DeviceNumbers(const Timeline& timeline) {
  using Uuid = std::array<uint8_t, 16>;
  std::map<Uuid, uint32_t> by_uuid;
  std::set<uint32_t> taken;
  std::vector<const GpuDevice*> others;
  const auto set = [this](const GpuDevice& device, uint32_t number) {
    numbers_[{Raw(device.pid), device.device}] = number;
  };
  for (const GpuDevice& device : timeline.devices()) {
    const bool is_known = device.uuid != Uuid{};
    const auto known = by_uuid.find(device.uuid);
    if (is_known && known != by_uuid.end()) {
      set(device, known->second);
    } else if (taken.insert(device.device).second || !is_known) {
      if (is_known) by_uuid.emplace(device.uuid, device.device);
      set(device, device.device);
    } else {
      others.push_back(&device);
    }
  }
  for (const GpuDevice* device : others) taken.insert(device->device);
  uint32_t next = 0;
  for (const GpuDevice* device : others) {
    const auto known = by_uuid.find(device->uuid);
    if (known != by_uuid.end()) {
      set(*device, known->second);
      continue;
    }
    while (!taken.insert(next).second) ++next;
    by_uuid.emplace(device->uuid, next);
    labels_[next] =
        "GPU " + std::to_string(device->device) + " of PID " + std::to_string(Raw(device->pid));
    set(*device, next);
  }
}

uint32_t DeviceNumbers::Of(Pid pid, uint32_t device) const {
  const auto known = numbers_.find({Raw(pid), device});
  return known == numbers_.end() ? device : known->second;
}

std::string DeviceNumbers::Label(uint32_t number) const {
  const auto label = labels_.find(number);
  return label == labels_.end() ? "GPU " + std::to_string(number) : label->second;
}

}  // namespace proftrace
