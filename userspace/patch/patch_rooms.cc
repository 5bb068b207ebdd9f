#include "userspace/patch/patch_rooms.h"

#include <absl/status/statusor.h>

#include <algorithm>
#include <utility>

#include "userspace/inject/room.h"

namespace proftrace {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kGroupBytes = 0x4000'0000;  // the spots of one room lie within so many bytes
// A room for fewer spots is not worth its copy of the recorder, some 60 KiB.
constexpr size_t kFewestSpots = 16;
// More than the longest run of targets that a jump has to leave out: 128 KiB, because two values of
// its distance's second uppermost byte are not safe (jump_distance.h).
constexpr uint64_t kSkippedBytes = 0x2'1000;
constexpr uint64_t kSplitSpare = 32;  // one byte of spare room is added for each 32 bytes
constexpr uint64_t kLeastSpareBytes = 1024;

uint64_t BytesOf(const PatchSpot& spot) {
  return RoundUp(TrampolineBytes(spot), kTrampolineAlignment);
}

class Rooms {
 public:
  Rooms(std::span<const PatchSpot> spots, uint64_t fixed_bytes, std::vector<Mapping> mappings)
      : spots_(spots), fixed_bytes_(fixed_bytes), mappings_(std::move(mappings)) {}

  std::vector<PatchRoom> Find() {
    for (size_t first = 0, end = 0; first < spots_.size(); first = end) {
      const uint64_t begin = spots_[first].address();
      while (end < spots_.size() && spots_[end].address() - begin < kGroupBytes) ++end;
      const uint64_t most =
          (end - first) * RoundUp(kMostTrampolineBytes, kTrampolineAlignment) + kSkippedBytes;
      if (!Take(first, end, most)) Split(first, end);
    }
    return std::move(rooms_);
  }

 private:
  PatchRoom Look(size_t first, size_t end, uint64_t trampoline_bytes) const {
    PatchRoom room{0, RoundUp(fixed_bytes_ + trampoline_bytes, kPageBytes), first, end};
    room.address = FindRoom(mappings_, spots_[first].address(),
                            spots_[end - 1].bias + spots_[end - 1].window.end(), room.bytes);
    return room;
  }

  bool Take(size_t first, size_t end, uint64_t trampoline_bytes) {
    const PatchRoom room = Look(first, end, trampoline_bytes);
    if (room.address == 0) return false;
    rooms_.push_back(room);
    Mapping mapping;
    mapping.start = room.address;
    mapping.end = room.address + room.bytes;
    const auto place = std::upper_bound(mappings_.begin(), mappings_.end(), mapping.start,
                                        [](uint64_t at, const Mapping& m) { return at < m.start; });
    mappings_.insert(place, std::move(mapping));
    return true;
  }

  // Splits the spots among several rooms. Each room takes as many of the spots that are left as fit
  // into any free place.
  void Split(size_t first, size_t end) {
    // The bytes of the trampolines of all spots before each spot; the last number is the bytes of
    // all trampolines.
    std::vector<uint64_t> bytes = {0};
    for (size_t i = first; i < end; ++i) bytes.push_back(bytes.back() + BytesOf(spots_[i]));
    // Adds spare room for targets that have to be left out. The few spots whose jumps would have to
    // leave out more get no trampoline.
    const auto bytes_of = [&, base = first](size_t begin, size_t count) {
      const uint64_t exact = bytes[begin + count - base] - bytes[begin - base];
      return exact + exact / kSplitSpare + kLeastSpareBytes;
    };
    while (first < end) {
      size_t fits = 0;
      for (size_t too_many = end - first + 1; too_many - fits > 1;) {
        const size_t tried = fits + (too_many - fits) / 2;
        const bool is_there = Look(first, first + tried, bytes_of(first, tried)).address != 0;
        (is_there ? fits : too_many) = tried;
      }
      const bool is_worth_it = fits >= std::min(kFewestSpots, end - first);
      if (!is_worth_it || !Take(first, first + fits, bytes_of(first, fits))) return;
      first += fits;
    }
  }

  std::span<const PatchSpot> spots_;
  uint64_t fixed_bytes_;
  std::vector<Mapping> mappings_;  // the process's, and the rooms that were taken
  std::vector<PatchRoom> rooms_;
};

}  // namespace

std::vector<PatchRoom> FindPatchRooms(std::span<const PatchSpot> spots, uint64_t fixed_bytes,
                                      std::vector<Mapping> mappings) {
  return Rooms(spots, fixed_bytes, std::move(mappings)).Find();
}

}  // namespace proftrace
