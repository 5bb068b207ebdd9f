// Turns records of GPU agents (bpf/abi/gpu_records.h) into events, with each size, kind and string
// checked. Bad records are counted and skipped. Not thread-safe.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bpf/abi/gpu_records.h"
#include "userspace/decode/device_event.h"
#include "userspace/stats/ledger.h"

namespace proftrace {

class DeviceDecoder {
 public:
  // Counts into `ledger`: records, unfinished, unknown, malformed; names count as merged.
  explicit DeviceDecoder(DeviceLedger* ledger);

  // Appends the events of `records` to `events`. A record cut off at the end of `records` counts as
  // malformed.
  void Decode(std::span<const std::byte> records, std::vector<DeviceEvent>* events);

  // Returns the text of a name, once all records are decoded; nullopt: the name is missing or
  // incomplete.
  std::optional<std::string> Name(DeviceNameRef ref) const;
  // Returns a number that is larger than any DeviceNameRef. Equal texts may have different refs.
  uint32_t name_count() const { return static_cast<uint32_t>(names_.size()); }

 private:
  struct PartialName {
    std::string text;
    uint32_t length = 0;
    bool is_known = false;  // a first part came
  };

  // Decodes a record. Returns false where it is malformed.
  bool DecodeRecord(const abi::pt_record& head, std::span<const std::byte> record,
                    std::vector<DeviceEvent>* events);
  bool DecodeName(const abi::pt_record& head, std::span<const std::byte> record);
  std::optional<DeviceEvent> DecodeActivity(const abi::pt_record& head,
                                            std::span<const std::byte> record);
  std::optional<DeviceEvent> DecodeFact(const abi::pt_record& head,
                                        std::span<const std::byte> record);
  std::optional<DeviceEvent> DecodeKernel(std::span<const std::byte> record);
  std::optional<DeviceEvent> DecodeMarker(std::span<const std::byte> record);
  std::optional<DeviceEvent> DecodeCall(std::span<const std::byte> record);
  std::optional<DeviceEvent> DecodeDevice(std::span<const std::byte> record);
  DeviceNameRef RefOf(uint32_t pid, uint64_t id);

  DeviceLedger* ledger_;
  std::vector<PartialName> names_;                                          // [0] stands for "none"
  absl::flat_hash_map<std::pair<uint32_t, uint64_t>, DeviceNameRef> refs_;  // by process and id
};

}  // namespace proftrace
