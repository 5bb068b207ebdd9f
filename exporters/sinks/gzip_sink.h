// A sink that compresses into another one: one gzip member, without a time stamp, so equal input
// gives equal bytes. Old readers of traces stop after the first member, so there is never a second
// one.
#pragma once

#include <memory>

#include "exporters/sinks/output_file.h"

namespace proftrace {

// Compresses fast rather than small: by ISA-L's level 1 where the build found it, else zlib's.
std::unique_ptr<ByteSink> NewGzipSink(std::unique_ptr<ByteSink> inner);

}  // namespace proftrace
