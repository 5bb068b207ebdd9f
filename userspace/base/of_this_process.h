// Process-wide objects that a forked child can use, too.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace proftrace {

// Returns how many forks there are between this process and the program that was started. A system
// call that bypasses fork(3) is not counted.
uint32_t ForkDepth();

// An object that a process makes for itself when it first uses it. A forked child makes its own
// one: in its copy of the parent's object a lock may be held by a thread that the child lacks, and
// the data behind that lock may be half changed. The child leaves that copy alone, so its memory is
// never freed.
//
// This class is for static objects, which should be constinit. A static object within a function
// does not do: a child that is forked while another thread makes that object waits for ever.
// Several threads may call Get() at the same time; the constructor of T may run more than once
// then.
template <typename T>
class OfThisProcess {
 public:
  constexpr OfThisProcess() = default;
  OfThisProcess(const OfThisProcess&) = delete;
  OfThisProcess& operator=(const OfThisProcess&) = delete;

  T& Get() {
    const uint32_t depth = ForkDepth();
    Made* made = made_.load(std::memory_order_acquire);
    while (made == nullptr || made->depth != depth) {
      auto mine = std::make_unique<Made>();
      mine->depth = depth;
      if (made_.compare_exchange_strong(made, mine.get(), std::memory_order_acq_rel)) {
        made = mine.release();
      }
    }
    return made->object;
  }

 private:
  struct Made {
    uint32_t depth = 0;
    T object;
  };
  std::atomic<Made*> made_ = nullptr;
};

}  // namespace proftrace
