// gzip by ISA-L (libisal), several times as fast as zlib.
#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <limits>

#include "userspace/fleet_sources/gzip_member.h"

namespace proftrace {
namespace {

constexpr char kFirstByte = '\x1f';

class IsalMember final : public GzipMember {
 public:
  void Begin() override {
    isal_inflate_init(&state_);
    state_.crc_flag = ISAL_GZIP;
    is_at_begin_ = true;
  }

  Outcome Unpack(std::string_view* packed, std::span<char>* room) override {
    constexpr size_t kMost = std::numeric_limits<uint32_t>::max();
    // A wrong first byte is refused here, because ISA-L checks a head only when it has all of it.
    if (is_at_begin_ && !packed->empty() && packed->front() != kFirstByte) {
      return Outcome::kDamaged;
    }
    is_at_begin_ = is_at_begin_ && packed->empty();
    const size_t given = std::min(packed->size(), kMost);
    const size_t free = std::min(room->size(), kMost);
    // ISA-L reads from next_in only, though its type is not const.
    state_.next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(packed->data()));
    state_.avail_in = static_cast<uint32_t>(given);
    state_.next_out = reinterpret_cast<uint8_t*>(room->data());
    state_.avail_out = static_cast<uint32_t>(free);
    const int result = isal_inflate(&state_);
    packed->remove_prefix(given - state_.avail_in);
    *room = room->subspan(free - state_.avail_out);
    if (result != ISAL_DECOMP_OK && result != ISAL_END_INPUT) return Outcome::kDamaged;
    return state_.block_state == ISAL_BLOCK_FINISH ? Outcome::kEnds : Outcome::kGoesOn;
  }

 private:
  inflate_state state_;
  bool is_at_begin_ = true;
};

}  // namespace

std::unique_ptr<GzipMember> NewGzipMember() { return std::make_unique<IsalMember>(); }

}  // namespace proftrace
