// Which host and which of its boots this is.
#pragma once

#include <string>
#include <string_view>

namespace proftrace {

struct HostIdentity {
  // The text of /proc/sys/kernel/random/boot_id: all processes of a host have the same until its
  // next boot, in containers as well.
  std::string boot_id;
  std::string machine_id_hash;
};

// A field is empty where it cannot be read.
HostIdentity ReadHostIdentity();

// Sixteen hex digits for the text of /etc/machine-id, which identifies a machine towards anybody
// (machine-id(5)): of 128 bits 64 are left, so that it cannot be computed back. Empty for a text
// without an id.
std::string HashOfMachineId(std::string_view text);

}  // namespace proftrace
