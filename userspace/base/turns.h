// Shares independent pieces of work out among threads.
#pragma once

#include <cstddef>
#include <functional>

namespace proftrace {

// More threads gain little, because the parts that one thread does alone take as long by then.
inline constexpr size_t kMostSharingThreads = 8;

// Does one turn. All calls of one worker come from one thread, and each turn is given to one worker
// only.
using TurnWorker = std::function<void(size_t turn)>;

// Does every turn of [0, `turns`) once, on as many threads as there are processors,
// kMostSharingThreads at most (the calling thread is one of them), and returns when all are done.
// `make_worker` is called once on each of these threads, possibly at the same time. Where a turn
// throws, no further turn is begun, and the first exception is thrown here when all threads are
// done. A turn should take ten microseconds at the least.
void ShareTurns(size_t turns, const std::function<TurnWorker()>& make_worker);

}  // namespace proftrace
