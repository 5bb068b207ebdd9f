// Unpacks one gzip member, and checks its checksum: by ISA-L, or by zlib in builds that do not find
// it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace proftrace {

class GzipMember {
 public:
  enum class Outcome : uint8_t {
    kGoesOn,   // it wants more input or more room
    kEnds,     // the member has ended, and all of it is unpacked
    kDamaged,  // it is no gzip, or not as it was packed
  };

  virtual ~GzipMember() = default;
  // Begins with the next member.
  virtual void Begin() = 0;
  // Unpacks from the front of `packed` to the front of `room`, and takes from both what it used.
  // Some text may come only with the next call, also where that one has no input.
  virtual Outcome Unpack(std::string_view* packed, std::span<char>* room) = 0;
};

// Null: there is no memory for it.
std::unique_ptr<GzipMember> NewGzipMember();

}  // namespace proftrace
