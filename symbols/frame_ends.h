// Where frames of TorchScript's interpreter are destroyed.
#pragma once

#include <cstdint>
#include <vector>

#include "symbols/code_image.h"

namespace proftrace {

struct FrameEnd {
  uint64_t address = 0;  // of the jump that skips the at::RecordFunction that is not there
  uint8_t reg = 0;       // the frame is at this register (by its hardware number) + offset
  int64_t offset = 0;
};

// The places that destroy a std::unique_ptr to an object with a virtual destructor at `slot` bytes
// in an object that a register points to (or to the end of it), near `maker`, the function that
// fills such a slot: the compiler keeps the functions of one source file together. A place that
// belongs to another class is no harm: what it destroys is told by its content (struct
// pt_pair_record).
std::vector<FrameEnd> FindFrameEnds(const CodeImage& image, const FunctionRange& maker,
                                    int64_t slot);

}  // namespace proftrace
