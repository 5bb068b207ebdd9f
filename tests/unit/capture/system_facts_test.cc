// What the BPF programs are told of system calls.
#include "userspace/capture/kernel/system_facts.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "userspace/model/system_calls.h"

namespace proftrace {
namespace {

class SystemFactsTest : public testing::Test {
 protected:
  const abi::pt_system_call& Of(std::string_view name) const {
    for (uint32_t number = 0; number < kSystemCallNumbers; ++number) {
      const SystemCallInfo* info = FindSystemCall(SystemAbi::kX86_64, number);
      if (info != nullptr && info->name == name) return facts_[number];
    }
    ADD_FAILURE() << name;
    return facts_.front();
  }

  const std::vector<abi::pt_system_call> facts_ = SystemCallFactsForKernel();
};

TEST_F(SystemFactsTest, AMessagesAddressIsAFieldOfIt) {
  const abi::pt_system_call& send = Of("sendmsg");
  EXPECT_EQ(send.structure, 2);
  EXPECT_EQ(send.field_bytes, 8);
  EXPECT_EQ(send.structure_bytes, 4 * send.field_bytes);
  EXPECT_EQ(send.address, PT_SYSTEM_FIRST_FIELD);
  EXPECT_EQ(send.address_bytes, PT_SYSTEM_FIRST_FIELD + 1);
  EXPECT_EQ(send.flags & abi::PT_SYSTEM_CALL_FILLS_ADDRESS, 0);
  EXPECT_NE(Of("recvmsg").flags & abi::PT_SYSTEM_CALL_FILLS_ADDRESS, 0);
}

// Nothing is read for a call whose registers mean something else.
TEST_F(SystemFactsTest, CallsOfOtherAbisHaveNoArguments) {
  ASSERT_EQ(facts_.size(), PT_SYSTEM_FOREIGN_CALL + 1u);
  EXPECT_EQ(facts_.back().arguments, 0);
  EXPECT_EQ(facts_.back().shape, abi::PT_SYSTEM_CALL_IS_PLAIN);
}

TEST_F(SystemFactsTest, StructuresHaveTheSizeThatTheyHadAtFirst) {
  EXPECT_EQ(Of("openat2").structure_bytes, 24);  // OPEN_HOW_SIZE_VER0
  EXPECT_EQ(Of("clone3").structure_bytes, 64);   // CLONE_ARGS_SIZE_VER0
  for (const abi::pt_system_call& facts : facts_) {
    EXPECT_LE(facts.structure_bytes, PT_SYSTEM_STRUCTURE_BYTES);
    EXPECT_EQ(facts.structure != 0, facts.structure_bytes != 0);
    // The kernel reads fields for these only.
    if (facts.address >= PT_SYSTEM_FIRST_FIELD) EXPECT_NE(facts.structure, 0);
  }
}

TEST_F(SystemFactsTest, MessagesAreAsLargeAsTheirPointersMakeThem) {
  EXPECT_EQ(Of("sendmmsg").message_bytes, 64);
  EXPECT_EQ(Of("recvmmsg").message_bytes, 64);
  EXPECT_EQ(Of("sendmmsg").structure_bytes, 8);
  EXPECT_EQ(Of("sendmsg").message_bytes, 0);
}

TEST_F(SystemFactsTest, ShapesFollowFromWhatIsTold) {
  EXPECT_EQ(Of("read").shape, abi::PT_SYSTEM_CALL_IS_PLAIN);
  EXPECT_EQ(Of("openat").shape, abi::PT_SYSTEM_CALL_HAS_PATH);
  for (const char* name : {"rename", "execve", "nanosleep", "sendmsg", "connect", "openat2"}) {
    EXPECT_EQ(Of(name).shape, abi::PT_SYSTEM_CALL_IS_LONG) << name;
  }
}

// What is there when they end is what is left of it.
TEST_F(SystemFactsTest, TimesThatCallsWriteToAreReadAtTheirBegin) {
  const auto is_left = [this](std::string_view name) {
    return (Of(name).time & PT_SYSTEM_TIME_IS_LEFT) != 0;
  };
  EXPECT_EQ(Of("select").time, 5 | PT_SYSTEM_TIME_IS_LEFT);
  EXPECT_EQ(Of("futex").time, 4);
  EXPECT_EQ(Of("read").time, 0);
  for (const char* name : {"pselect6", "ppoll", "recvmmsg", "nanosleep", "clock_nanosleep"}) {
    EXPECT_TRUE(is_left(name)) << name;
  }
}

TEST_F(SystemFactsTest, WhereAPathStartsIsNotWhereTheCallGoesTo) {
  EXPECT_EQ(Of("chdir").directory, PT_SYSTEM_DIRECTORY_AT_BEGIN);
  EXPECT_EQ(Of("openat").directory, 1);
  EXPECT_EQ(Of("open").directory, 0);
}

TEST_F(SystemFactsTest, TextStartsAtNoDirectory) {
  EXPECT_NE(Of("symlink").flags & abi::PT_SYSTEM_CALL_SECOND_IS_TEXT, 0);
  EXPECT_EQ(Of("rename").flags & abi::PT_SYSTEM_CALL_SECOND_IS_TEXT, 0);
}

}  // namespace
}  // namespace proftrace
