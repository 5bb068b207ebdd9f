#include "userspace/base/of_this_process.h"

#include <pthread.h>

namespace proftrace {
namespace {

constinit std::atomic<uint32_t> fork_depth = 0;

void CountInChild() { fork_depth.fetch_add(1, std::memory_order_relaxed); }

// Objects that are used before this one is made belong to the program itself, which has forked
// nothing yet.
[[maybe_unused]] const int is_counting = pthread_atfork(nullptr, nullptr, CountInChild);

}  // namespace

uint32_t ForkDepth() { return fork_depth.load(std::memory_order_relaxed); }

}  // namespace proftrace
