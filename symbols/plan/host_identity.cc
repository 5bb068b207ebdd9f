#include "symbols/plan/host_identity.h"

#include <xxhash.h>

#include <cstdint>
#include <cstdio>

#include "symbols/process/process_maps.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

constexpr size_t kMostIdBytes = 128;
constexpr size_t kMachineIdDigits = 32;
// Part of the hashed text, so that another program's hash of the same id is different.
constexpr std::string_view kPurpose = "proftrace machine id ";

}  // namespace

std::string HashOfMachineId(std::string_view text) {
  text = StripBlanks(text);
  // "uninitialized": an image before its first boot (machine-id(5)).
  const bool is_id = text.size() == kMachineIdDigits &&
                     text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  if (!is_id) return "";
  const std::string hashed = std::string(kPurpose) + std::string(text);
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(hashed.data(), hashed.size())));
  return digits;
}

HostIdentity ReadHostIdentity() {
  const std::string boot = ReadSmallFile("/proc/sys/kernel/random/boot_id", kMostIdBytes);
  std::string hash = HashOfMachineId(ReadSmallFile("/etc/machine-id", kMostIdBytes));
  if (hash.empty()) {
    hash = HashOfMachineId(ReadSmallFile("/var/lib/dbus/machine-id", kMostIdBytes));
  }
  return {std::string(StripBlanks(boot)), hash};
}

}  // namespace proftrace
