#include "userspace/capture/targets/process_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "bpf/abi/records.h"
#include "userspace/base/clock.h"
#include "userspace/capture/processes/unprobed_points.h"

namespace proftrace {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr int64_t kPatienceNs = 20'000'000'000;
// Within this there are several looks.
constexpr int64_t kNamedNs = 300'000'000;

// What a record says, as a text.
std::string ToText(std::span<const std::byte> record) {
  abi::pt_exit_record whole{};
  std::memcpy(&whole, record.data(), std::min(record.size(), sizeof(whole)));
  abi::pt_fork_record fork{};
  std::memcpy(&fork, record.data(), std::min(record.size(), sizeof(fork)));
  const std::string pid = std::to_string(whole.head.pid);
  switch (whole.head.kind) {
    case abi::PT_FORK:
      return "fork " + pid + " " + std::to_string(fork.child_pid);
    case abi::PT_EXEC:
      return "exec " + pid;
    default:
      return (whole.group_dead != 0 ? "end " : "thread ") + pid + " " +
             std::to_string(whole.exit_code) + " " + whole.comm;
  }
}

// A child that does what it is told, by a byte each.
class Child {
 public:
  explicit Child(const std::function<void(int in, int out)>& work) {
    EXPECT_EQ(pipe(to_), 0);
    EXPECT_EQ(pipe(from_), 0);
    pid_ = fork();
    if (pid_ != 0) return;
    // Nobody but us can make it go on.
    close(to_[1]);
    prctl(PR_SET_NAME, "watched");
    work(to_[0], from_[1]);
    _exit(3);
  }
  ~Child() {
    Go();
    waitpid(pid_, nullptr, 0);
    for (const int fd : {to_[0], to_[1], from_[0], from_[1]}) close(fd);
  }
  void Go() { EXPECT_EQ(write(to_[1], "x", 1), 1); }
  uint32_t Answer() {
    uint32_t answer = 0;
    EXPECT_EQ(read(from_[0], &answer, sizeof(answer)), static_cast<ssize_t>(sizeof(answer)));
    return answer;
  }
  Pid pid() const { return Pid{static_cast<uint32_t>(pid_)}; }

 private:
  int to_[2];
  int from_[2];
  pid_t pid_;
};

void Wait(int in) {
  char byte;
  (void)!read(in, &byte, 1);
}

void Tell(int out, pid_t number) {
  const auto answer = static_cast<uint32_t>(number);
  (void)!write(out, &answer, sizeof(answer));
}

class ProcessWatchTest : public ::testing::Test {
 protected:
  // Looks until `text` has been told.
  void LookFor(const std::string& text) {
    const int64_t until_ns = MonotonicNs() + kPatienceNs;
    while (MonotonicNs() < until_ns) {
      Look();
      if (std::find(told_.begin(), told_.end(), text) != told_.end()) return;
    }
    FAIL() << "not told: " << text << "; " << ::testing::PrintToString(told_);
  }
  void Look() {
    watch_.WaitAndTake(
        5, [this](std::span<const std::byte> record) { told_.push_back(ToText(record)); });
  }

  ProcessWatch watch_{/*follow_children=*/true};
  std::vector<std::string> told_;
};

TEST_F(ProcessWatchTest, TellsOfAForkThenOfItsExecThenOfItsEnd) {
  int exec[2];
  int input[2];
  ASSERT_EQ(pipe(exec), 0);
  ASSERT_EQ(pipe(input), 0);
  Child child([&](int in, int out) {
    close(input[1]);
    Wait(in);
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      Wait(exec[0]);
      dup2(input[0], STDIN_FILENO);
      execl("/bin/cat", "cat", nullptr);
    }
    Tell(out, grandchild);
    waitpid(grandchild, nullptr, 0);
    Wait(in);
  });
  ASSERT_TRUE(watch_.Add(child.pid()).ok());
  Look();
  EXPECT_TRUE(told_.empty());
  child.Go();
  const std::string pid = std::to_string(Raw(child.pid()));
  const std::string grandchild = std::to_string(child.Answer());
  LookFor("fork " + pid + " " + grandchild);
  ASSERT_EQ(write(exec[1], "x", 1), 1);
  LookFor("exec " + grandchild);
  // Its name is read again at a look.
  const int64_t until_ns = MonotonicNs() + kNamedNs;
  while (MonotonicNs() < until_ns) Look();
  close(input[1]);
  LookFor("end " + grandchild + " 0 cat");
  child.Go();
  LookFor("end " + pid + " " + std::to_string(3 << 8) + " watched");
  EXPECT_EQ(told_.size(), 4u) << ::testing::PrintToString(told_);
  EXPECT_GT(watch_.longest_interval_ns(), 0);
  for (const int fd : {exec[0], exec[1], input[0]}) close(fd);
}

TEST_F(ProcessWatchTest, TellsOfThreadsByTheirLastNames) {
  Child child([](int in, int out) {
    std::thread thread([in, out] {
      pthread_setname_np(pthread_self(), "first name");
      Tell(out, 1);
      Wait(in);
      pthread_setname_np(pthread_self(), "last name");
      Tell(out, 2);
      Wait(in);
    });
    thread.join();
    Tell(out, 3);
    Wait(in);
  });
  ASSERT_TRUE(watch_.Add(child.pid()).ok());
  EXPECT_EQ(child.Answer(), 1u);
  Look();
  child.Go();
  EXPECT_EQ(child.Answer(), 2u);
  const int64_t until_ns = MonotonicNs() + kNamedNs;
  while (MonotonicNs() < until_ns) Look();
  child.Go();
  EXPECT_EQ(child.Answer(), 3u);
  LookFor("thread " + std::to_string(Raw(child.pid())) + " 0 last name");
  EXPECT_EQ(told_.size(), 1u);
}

TEST_F(ProcessWatchTest, OneThatHasEndedBeforeIsToldOf) {
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_NAME, "short");
    _exit(5);
  }
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
  ASSERT_TRUE(watch_.Add(Pid{static_cast<uint32_t>(pid)}).ok());
  LookFor("end " + std::to_string(pid) + " " + std::to_string(5 << 8) + " short");
  waitpid(pid, nullptr, 0);
}

TEST(ImageMarkTest, IsAnotherOneAfterAnExecOnly) {
  const std::string own = ReadImageMark(Pid{static_cast<uint32_t>(getpid())});
  ASSERT_FALSE(own.empty());
  Child child([](int in, int) { Wait(in); });
  EXPECT_EQ(ReadImageMark(child.pid()), own);
}

ProbePoint Point(uint64_t site, uint64_t role) { return {0, role << 16 | site, 0, 0}; }

TEST(UnprobedPointsTest, EndsCountForWhatTheyEnd) {
  ModulePlan module;
  module.points = {Point(1, abi::PT_ROLE_BOXED_BEGIN), Point(1, abi::PT_ROLE_END),
                   Point(1, abi::PT_ROLE_END), Point(2, abi::PT_ROLE_BEGIN),
                   Point(0, abi::PT_ROLE_CATCH)};
  std::vector<std::string> texts;
  for (const Unsupported& gap : DescribeUnprobed({module}, {})) {
    texts.push_back(gap.feature + ": " + gap.reason);
  }
  EXPECT_EQ(texts.size(), 3u);
  EXPECT_THAT(texts, Contains(::testing::AllOf(HasSubstr("boxed"), HasSubstr(": 3 places"))));
  EXPECT_THAT(texts, Contains(::testing::StartsWith("operators and functions: 1 place")));
  EXPECT_THAT(texts, Contains(HasSubstr("exception")));
  EXPECT_TRUE(DescribeUnprobed({}, {}).empty());
}

TEST(UnprobedPointsTest, RowsOfFunctionsHaveTheirNames) {
  std::vector<SiteInfo> sites(4);
  sites[1].symbol = "_ZN12_GLOBAL__N_117THPFunction_applyEP7_objectS1_";
  ModulePlan module;
  module.points = {Point(1, abi::PT_ROLE_GUARD_BEGIN), Point(2, abi::PT_ROLE_GUARD_BEGIN),
                   Point(0, abi::PT_ROLE_GUARD_END), Point(3, abi::PT_ROLE_WORK_TITLE)};
  std::vector<std::string> texts;
  for (const Unsupported& gap : DescribeUnprobed({module}, sites)) {
    texts.push_back(gap.feature + ": " + gap.reason);
  }
  EXPECT_EQ(texts.size(), 3u);
  EXPECT_THAT(texts,
              Contains(::testing::AllOf(::testing::StartsWith("rows of function "),
                                        HasSubstr("THPFunction_apply"), HasSubstr(": 1 place "))));
  EXPECT_THAT(texts,
              Contains(::testing::StartsWith("rows of at::RecordFunction in C++: 2 places")));
  EXPECT_THAT(texts, Contains(HasSubstr("c10d")));
}

}  // namespace
}  // namespace proftrace
