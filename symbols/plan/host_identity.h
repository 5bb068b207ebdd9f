// Identifies this host and its boot.
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

// Reads the identity. A field that cannot be read is empty.
HostIdentity ReadHostIdentity();

// Returns sixteen hex digits for the text of /etc/machine-id. The id itself identifies a machine
// and must not be shown to anybody (machine-id(5)); 64 of its 128 bits are left, so that it cannot
// be computed back. Empty for a text without an id.
std::string HashOfMachineId(std::string_view text);

}  // namespace proftrace
