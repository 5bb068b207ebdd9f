// Lowers the priority of work that is done beside a recorded job, so that it does not take CPU time
// from the job where CPUs are few.
#pragma once

namespace proftrace {

// Lets the calling thread, and processes that it starts from here on, give way to threads of normal
// priority (a nice value of 5: a third of their share).
void GiveWay();

}  // namespace proftrace
