// A sink that writes its input as one gzip member into another sink. The member has no time stamp,
// so that equal input gives equal bytes. There is never a second member, because old readers of
// traces stop after the first one.
#pragma once

#include <memory>

#include "exporters/sinks/output_file.h"

namespace proftrace {

// Makes a sink that compresses fast rather than well: at level 1 of ISA-L where the build found
// ISA-L, else at level 1 of zlib.
std::unique_ptr<ByteSink> NewGzipSink(std::unique_ptr<ByteSink> inner);

}  // namespace proftrace
