// Finds places for trampolines in one region, each at a distance that its jump may have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace proftrace {

class TrampolineRoom {
 public:
  // Takes the free memory [begin, end); `begin` is aligned as trampolines are.
  TrampolineRoom(uint64_t begin, uint64_t end) : gaps_{{begin, end}} {}

  // Takes and returns the lowest place for `bytes` bytes to which a jump that ends at `jump_end`
  // may lead; nullopt: there is none. Space that has to be left out for this jump stays free for
  // others.
  std::optional<uint64_t> Take(uint64_t jump_end, size_t bytes);

 private:
  struct Gap {
    uint64_t begin = 0;
    uint64_t end = 0;
  };

  std::vector<Gap> gaps_;  // ascending
};

}  // namespace proftrace
