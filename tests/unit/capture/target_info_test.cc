#include "userspace/capture/targets/target_info.h"

#include <gtest/gtest.h>

namespace proftrace {
namespace {

TEST(WhyClosedTest, TellsAUserOfRoot) {
  EXPECT_EQ(WhyClosed(1, /*is_root=*/false),
            "1 process of the host may not be looked into by this user; run proftrace as root");
  EXPECT_EQ(WhyClosed(2, /*is_root=*/false),
            "2 processes of the host may not be looked into by this user; run proftrace as root");
}

TEST(WhyClosedTest, TellsRootWhatKeepsHimOut) {
  EXPECT_EQ(WhyClosed(1, /*is_root=*/true),
            "root may not look into 1 process of the host: CAP_SYS_PTRACE is missing, or the "
            "process is of a user namespace outside of this one; run proftrace outside of the "
            "container");
  EXPECT_EQ(WhyClosed(3, /*is_root=*/true),
            "root may not look into 3 processes of the host: CAP_SYS_PTRACE is missing, or they "
            "are of a user namespace outside of this one; run proftrace outside of the container");
}

}  // namespace
}  // namespace proftrace
