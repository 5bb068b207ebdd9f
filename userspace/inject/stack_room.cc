#include "userspace/inject/stack_room.h"

#include <algorithm>
#include <iterator>

namespace proftrace {
namespace {

// Arenas of glibc's allocator begin at multiples of this. Below an arena may lie the unused rest of
// another one, which looks like the guard page below a stack.
constexpr uint64_t kArenaAlignment = uint64_t{64} << 20;

}  // namespace

bool StandsOnItsOwnStack(const StoppedThread& thread, const std::vector<Mapping>& mappings) {
  const uint64_t rsp = thread.registers.rsp;
  const auto after =
      std::upper_bound(mappings.begin(), mappings.end(), rsp,
                       [](uint64_t address, const Mapping& at) { return address < at.start; });
  if (after == mappings.begin()) return false;
  const auto stack = std::prev(after);
  if (rsp >= stack->end || rsp - stack->start < kReturnFrameRoom) return false;
  if (stack->path == "[stack]") return true;
  const bool has_no_name = stack->path.empty() || stack->path.starts_with("[anon:");
  if (stack->inode != 0 || !has_no_name || stack == mappings.begin()) return false;
  const auto below = std::prev(stack);
  return below->end == stack->start && !below->accessible && stack->start % kArenaAlignment != 0;
}

}  // namespace proftrace
