#include "userspace/base/give_way.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace proftrace {

void GiveWay() {
  // Linux has a nice value for each thread.
  const auto thread = static_cast<id_t>(syscall(SYS_gettid));
  (void)setpriority(PRIO_PROCESS, thread, 5);
}

}  // namespace proftrace
