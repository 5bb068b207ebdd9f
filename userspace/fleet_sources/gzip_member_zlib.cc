// gzip by zlib, for builds that do not find ISA-L.
#include <zlib.h>

#include <algorithm>
#include <limits>

#include "userspace/fleet_sources/gzip_member.h"

namespace proftrace {
namespace {

constexpr int kGunzipWindowBits = 15 + 16;  // zlib.h: 16 more asks for the gzip wrapper

class ZlibMember final : public GzipMember {
 public:
  ZlibMember() { is_ready_ = inflateInit2(&stream_, kGunzipWindowBits) == Z_OK; }
  ~ZlibMember() override { inflateEnd(&stream_); }
  bool is_ready() const { return is_ready_; }

  void Begin() override { inflateReset(&stream_); }

  Outcome Unpack(std::string_view* packed, std::span<char>* room) override {
    constexpr size_t kMost = std::numeric_limits<uInt>::max();
    const size_t given = std::min(packed->size(), kMost);
    const size_t free = std::min(room->size(), kMost);
    // zlib reads from next_in only, though its type is not const.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed->data()));
    stream_.avail_in = static_cast<uInt>(given);
    stream_.next_out = reinterpret_cast<Bytef*>(room->data());
    stream_.avail_out = static_cast<uInt>(free);
    const int result = inflate(&stream_, Z_NO_FLUSH);
    packed->remove_prefix(given - stream_.avail_in);
    *room = room->subspan(free - stream_.avail_out);
    if (result == Z_STREAM_END) return Outcome::kEnds;
    return result == Z_OK || result == Z_BUF_ERROR ? Outcome::kGoesOn : Outcome::kDamaged;
  }

 private:
  z_stream stream_{};
  bool is_ready_ = false;
};

}  // namespace

std::unique_ptr<GzipMember> NewGzipMember() {
  auto member = std::make_unique<ZlibMember>();
  if (!member->is_ready()) return nullptr;
  return member;
}

}  // namespace proftrace
