#include "userspace/base/standard_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string>

namespace proftrace {
namespace {

// Ends the process: 0 where both writes and the flush after them were no error, else 1. The text is
// longer than the buffer, so that a part of it is written at once.
[[noreturn]] void WriteMuchTo(int fd) {
  std::signal(SIGPIPE, SIG_IGN);
  dup2(fd, STDOUT_FILENO);
  const std::string text(1 << 20, 'x');
  const bool is_ok = WriteStandardOutput(text).ok() && WriteStandardOutput("more\n").ok() &&
                     FlushStandardOutput().ok();
  _exit(is_ok ? 0 : 1);
}

TEST(StandardOutputTest, AReaderThatHasClosedThePipeIsNoErrorAlsoAfterwards) {
  EXPECT_EXIT(
      {
        int ends[2];
        if (pipe(ends) != 0) _exit(2);
        close(ends[0]);
        WriteMuchTo(ends[1]);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(StandardOutputTest, ADiskThatTakesNothingIsAnError) {
  EXPECT_EXIT(WriteMuchTo(open("/dev/full", O_WRONLY)), ::testing::ExitedWithCode(1), "");
}

}  // namespace
}  // namespace proftrace
