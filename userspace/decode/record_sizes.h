// How large a record of the kernel's side must be to have what its kind promises.
#pragma once

#include <cstddef>
#include <cstdint>

namespace proftrace {

// Returns the least bytes of a record, by enum pt_kind; 0: a kind that is not known, or never in a
// capture.
size_t MinimumRecordBytes(uint8_t kind);

}  // namespace proftrace
