// The main of live tests in C++: what they do needs root.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

int main(int argc, char** argv) {
  constexpr int kSkip = 77;
  if (geteuid() != 0) {
    std::puts("skipped: needs root");
    return kSkip;
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
