#include "userspace/cli/background_self.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "userspace/base/unique_fd.h"

namespace proftrace {

pid_t StartSelfInBackground(std::vector<std::string> arguments,
                            const std::array<int, 2>& descriptors, int niceness) {
  // The copies get numbers above kBackgroundDescriptors, so that dup2 of one does not close the
  // other.
  constexpr int kLeast = kBackgroundDescriptors.back() + 1;
  const UniqueFd first(fcntl(descriptors[0], F_DUPFD_CLOEXEC, kLeast));
  const UniqueFd second(fcntl(descriptors[1], F_DUPFD_CLOEXEC, kLeast));
  if (!first.valid() || !second.valid()) return -1;
  std::string name = "proftrace";
  std::vector<char*> argv = {name.data()};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&files, first.get(), kBackgroundDescriptors[0]);
  posix_spawn_file_actions_adddup2(&files, second.get(), kBackgroundDescriptors[1]);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, "/proc/self/exe", &files, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    errno = error;
    return -1;
  }
  setpriority(PRIO_PROCESS, static_cast<id_t>(pid), niceness);
  return pid;
}

std::string BackgroundDescriptorsText() {
  return std::to_string(kBackgroundDescriptors[0]) + "," +
         std::to_string(kBackgroundDescriptors[1]);
}

}  // namespace proftrace
