#include <csignal>
#include <cstdio>
#include <exception>

#include "userspace/base/exit_status.h"
#include "userspace/cli/command_line.h"

int main(int argc, char** argv) {
  // A file that may not grow (RLIMIT_FSIZE) is an output that cannot be written, not our end.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return proftrace::RunCommandLine(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "proftrace: %s; this is a bug of proftrace: please report it\n",
                 error.what());
    return static_cast<int>(proftrace::ExitCode::kBug);
  }
}
