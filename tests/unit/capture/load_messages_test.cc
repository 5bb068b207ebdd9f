#include "userspace/capture/kernel/load_messages.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace proftrace {
namespace {

constexpr char kFailed[] = "libbpf: prog 'on_probe': BPF program load failed: Permission denied\n";
constexpr char kLog[] =
    "libbpf: prog 'on_probe': -- BEGIN PROG LOAD LOG --\n"
    "12623: (85) call bpf_probe_read_user#112\n"
    "invalid access to map value, value_size=69632 off=40 size=268435456\n"
    "processed 181890 insns (limit 1000000) max_states_per_insn 25\n"
    "-- END PROG LOAD LOG --\n";

TEST(LoadMessagesTest, AReasonIsTheLogsLastWordBeforeTheCounts) {
  EXPECT_EQ(VerifierReason(kLog),
            "invalid access to map value, value_size=69632 off=40 size=268435456");
  EXPECT_EQ(VerifierReason("-- BEGIN PROG LOAD LOG --\nverification time 7 usec\n"), "");
  EXPECT_EQ(VerifierReason("-- BEGIN PROG LOAD LOG --\nR1 is bad"), "R1 is bad");
  EXPECT_EQ(VerifierReason(kFailed), "");
}

TEST(LoadMessagesTest, TheFirstMessageAndTheReasonAreKept) {
  LoadMessages messages;
  EXPECT_EQ(messages.Text(), "");
  messages.Add(kFailed);
  messages.Add(kLog);
  messages.Add("libbpf: failed to load object\n");
  EXPECT_EQ(messages.Text(),
            " (libbpf: prog 'on_probe': BPF program load failed: Permission denied: invalid access "
            "to map value, value_size=69632 off=40 size=268435456)");
  messages.Clear();
  EXPECT_EQ(messages.Text(), "");
}

TEST(LoadMessagesTest, AProgramThatTheVerifierRefusesIsNoLackOfPermission) {
  LoadMessages messages;
  EXPECT_TRUE(messages.IsNotPermitted(EPERM));
  EXPECT_TRUE(messages.IsNotPermitted(EACCES));
  EXPECT_FALSE(messages.IsNotPermitted(EINVAL));
  messages.Add(kLog);
  EXPECT_TRUE(messages.IsNotPermitted(EPERM));
  EXPECT_FALSE(messages.IsNotPermitted(EACCES));
}

}  // namespace
}  // namespace proftrace
