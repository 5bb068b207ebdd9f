// Shares independent pieces of work out among threads.
#pragma once

#include <cstddef>
#include <functional>

namespace proftrace {

// Calls of one worker are made by one thread, each with the number of a turn that is its alone.
using TurnWorker = std::function<void(size_t turn)>;

// Has every turn of [0, `turns`) done once, by as many threads as there are processors (the calling
// one among them) and returns when all are done. `make_worker` is called once on each of these
// threads, possibly at the same time. What a turn throws comes out here, when no other turn is done
// any more. A turn should be worth some ten microseconds at the least.
void ShareTurns(size_t turns, const std::function<TurnWorker()>& make_worker);

}  // namespace proftrace
