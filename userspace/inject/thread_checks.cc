#include "userspace/inject/thread_checks.h"

#include <algorithm>
#include <cstddef>

namespace proftrace {
namespace {

constexpr uint64_t kAbiRedZoneBytes = 128;
constexpr uint64_t kPageBytes = 4096;
// How far above a thread's stack pointer its stack is searched for frames. A handler that has used
// more stack is not seen.
constexpr uint64_t kMostStackBytes = uint64_t{1} << 20;
// In the kernel's struct sigcontext_64, the word behind rip has the flags, and the next word has cs
// in its lowest 16 bits.
constexpr uint64_t kUserCodeSegment = 0x33;
constexpr uint64_t kAlwaysSetFlag = 0x2;
constexpr uint64_t kMostFlags = uint64_t{1} << 22;

bool IsFrame(const uint64_t* words) {
  return (words[1] & kAlwaysSetFlag) != 0 && words[1] < kMostFlags &&
         (words[2] & 0xffff) == kUserCodeSegment;
}

// Returns the words from `from` on, up to `end` or to the first page that cannot be read. Since
// glibc 2.42 the guard below a thread's stack is no mapping of its own (MADV_GUARD_INSTALL), and
// neighbouring stacks are one mapping: behind the guard, another thread's stack begins.
std::vector<uint64_t> ReadStack(const TargetMemory& memory, uint64_t from, uint64_t end) {
  std::vector<uint64_t> words((end - from) / sizeof(uint64_t));
  if (memory.Read(from, words.data(), words.size() * sizeof(uint64_t))) return words;
  size_t got = 0;
  while (got < words.size()) {
    const uint64_t at = from + got * sizeof(uint64_t);
    const size_t count =
        std::min<size_t>((kPageBytes - at % kPageBytes) / sizeof(uint64_t), words.size() - got);
    if (!memory.Read(at, words.data() + got, count * sizeof(uint64_t))) break;
    got += count;
  }
  words.resize(got);
  return words;
}

}  // namespace

bool AnyThreadGoesOn(const std::vector<StoppedThread>& threads,
                     const std::vector<Mapping>& mappings, const TargetMemory& memory,
                     const std::function<bool(uint64_t)>& is_inside) {
  for (const StoppedThread& thread : threads) {
    if (thread.is_gone) continue;
    if (is_inside(thread.registers.rip)) return true;
    const uint64_t rsp = thread.registers.rsp;
    const auto after =
        std::upper_bound(mappings.begin(), mappings.end(), rsp,
                         [](uint64_t address, const Mapping& at) { return address < at.start; });
    if (after == mappings.begin() || rsp >= std::prev(after)->end) return true;
    const Mapping& stack = *std::prev(after);
    const uint64_t from =
        std::max((rsp - kAbiRedZoneBytes) & ~uint64_t{sizeof(uint64_t) - 1}, stack.start);
    const std::vector<uint64_t> words =
        ReadStack(memory, from, from + std::min(stack.end - from, kMostStackBytes));
    if (from + words.size() * sizeof(uint64_t) <= rsp) return true;
    for (size_t i = 0; i + 2 < words.size(); ++i) {
      if (is_inside(words[i]) && IsFrame(&words[i])) return true;
    }
  }
  return false;
}

}  // namespace proftrace
