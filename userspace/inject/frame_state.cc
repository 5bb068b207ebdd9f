#include "userspace/inject/frame_state.h"

#include <cpuid.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace proftrace {
namespace {

// The area's bytes that are reserved for software.
struct FrameFpTail {
  uint32_t magic1;
  uint32_t extended_bytes;
  uint64_t features;
  uint32_t state_bytes;
  uint32_t padding[7];
};
static_assert(sizeof(FrameFpTail) == 48);
constexpr size_t kFpTailOffset = 464;
// The place of the XSAVE header, whose first word tells which components are not in their initial
// state.
constexpr size_t kHeaderOffset = 512;
constexpr uint32_t kLegacyBytes = 576;
constexpr uint32_t kFpMagic1 = 0x46505853;
constexpr uint32_t kFpMagic2 = 0x46505845;
constexpr unsigned kStateLeaf = 0xd;
constexpr unsigned kFirstExtended = 2;
constexpr uint64_t kTileConfiguration = uint64_t{1} << 17;
constexpr uint64_t kTileData = uint64_t{1} << 18;

uint32_t EndOf(uint64_t features, const StateLayout& layout) {
  uint32_t end = kLegacyBytes;
  for (unsigned i = kFirstExtended; i < layout.size(); ++i) {
    const bool has_it = (features >> i & 1) != 0 && layout[i].bytes != 0;
    if (has_it) end = std::max(end, layout[i].offset + layout[i].bytes);
  }
  return end;
}

}  // namespace

StateLayout ReadStateLayout() {
  StateLayout layout;
  for (unsigned i = kFirstExtended; i < layout.size(); ++i) {
    unsigned flags = 0;
    unsigned d = 0;
    StateComponent& component = layout[i];
    if (__get_cpuid_count(kStateLeaf, i, &component.bytes, &component.offset, &flags, &d) == 0) {
      break;
    }
  }
  return layout;
}

absl::StatusOr<std::vector<uint8_t>> MakeFrameState(std::vector<uint8_t> area,
                                                    const StateLayout& layout) {
  if (area.size() < kLegacyBytes) {
    return absl::UnavailableError("the vector state of a thread cannot be read");
  }
  FrameFpTail tail{};
  uint64_t used = 0;
  std::memcpy(&tail.features, area.data() + kFpTailOffset, sizeof(tail.features));
  std::memcpy(&used, area.data() + kHeaderOffset, sizeof(used));
  const uint64_t all = tail.features;
  tail.features &= ~(kTileConfiguration | kTileData) | used;
  const auto area_bytes = static_cast<uint32_t>(area.size());
  tail.state_bytes =
      tail.features == all ? area_bytes : std::min(area_bytes, EndOf(tail.features, layout));
  tail.magic1 = kFpMagic1;
  tail.extended_bytes = tail.state_bytes + sizeof(kFpMagic2);
  std::memcpy(area.data() + kFpTailOffset, &tail, sizeof(tail));
  // Kernels differ in where they look for the end mark. So it is written at three places: behind
  // the state of the size that the frame tells, behind the largest state without AMX tile data, and
  // behind the whole area. The bytes in between belong to components in their initial state.
  area.resize(area_bytes + sizeof(kFpMagic2));
  const uint32_t usual_bytes = std::min(area_bytes, EndOf(all & ~kTileData, layout));
  for (const uint32_t end :
       {tail.state_bytes, std::max(tail.state_bytes, usual_bytes), area_bytes}) {
    std::memcpy(area.data() + end, &kFpMagic2, sizeof(kFpMagic2));
  }
  return area;
}

}  // namespace proftrace
