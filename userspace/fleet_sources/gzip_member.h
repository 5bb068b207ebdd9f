// Unpacks one gzip member and checks its checksum: by ISA-L, or by zlib in builds that do not find
// ISA-L.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace proftrace {

class GzipMember {
 public:
  enum class Outcome : uint8_t {
    kGoesOn,   // the member goes on: more input or more room is needed
    kEnds,     // the member has ended, and all of it is unpacked
    kDamaged,  // the bytes are not gzip, or were changed
  };

  virtual ~GzipMember() = default;
  // Begins with the next member.
  virtual void Begin() = 0;
  // Unpacks from the front of `packed` to the front of `room`, and removes the used parts from
  // both. Some text may come only with the next call, even if that call has no input.
  virtual Outcome Unpack(std::string_view* packed, std::span<char>* room) = 0;
};

// Returns null where there is no memory for it.
std::unique_ptr<GzipMember> NewGzipMember();

}  // namespace proftrace
