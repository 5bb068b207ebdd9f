// The least size of each kind of record that the BPF programs write.
#pragma once

#include <cstddef>
#include <cstdint>

namespace proftrace {

// Returns the least size in bytes of a record of a kind (enum pt_kind); 0: the kind is not known,
// or is never in a capture.
size_t MinimumRecordBytes(uint8_t kind);

}  // namespace proftrace
