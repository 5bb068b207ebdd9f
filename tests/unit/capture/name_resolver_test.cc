// Names that records refer to, read from processes: from this one, and from one that has ended.
#include "userspace/capture/name_resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/record_maker.h"

namespace torch::autograd {

struct PyNode {
  virtual ~PyNode() = default;
};

}  // namespace torch::autograd

namespace proftrace {
namespace {

using testing::HasSubstr;
using testing::Not;

// As CPython has it.
struct PythonType {
  uint64_t head[3];
  const char* name;
};

// A process that has ended, and no other one has its PID yet.
uint32_t EndedProcess() {
  const pid_t pid = fork();
  if (pid == 0) _exit(0);
  EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
  return static_cast<uint32_t>(pid);
}

class NameResolverTest : public testing::Test {
 protected:
  NameResolverTest() { std::memcpy(&vtable_, &node_, sizeof(vtable_)); }

  // All have one address space.
  NameResolver names_{[](Pid) { return std::optional<uint32_t>(1); },
                      [this](const std::function<void(MetadataWriter&)>& add) { add(words_); },
                      [this](Pid, uint64_t, bool is_python) { classes_.push_back(is_python); },
                      [this](Pid pid, uint32_t) {
                        ++symbols_asked_;
                        return Raw(pid) == live_ ? std::optional<std::string>("prim::loop")
                                                 : std::nullopt;
                      }};

  void Observe(RecordMaker* job) {
    names_.Observe(job->bytes());
    job->bytes().clear();
  }
  void Node(uint32_t pid) {
    RecordMaker job(pid);
    job.Node(1, 10, 1, 1, vtable_, reinterpret_cast<uint64_t>(&type_), "");
    Observe(&job);
  }
  void Named(uint32_t pid) {
    RecordMaker job(pid);
    job.Named(1, 10, 1, 1, 7, 0);
    Observe(&job);
  }

  // The metadata since the last call.
  std::string Words() {
    std::string all;
    for (const std::string& words : words_.TakeJson()) all += words;
    return all;
  }

  const uint32_t live_ = static_cast<uint32_t>(getpid());
  const uint32_t ended_ = EndedProcess();
  const torch::autograd::PyNode node_;
  const PythonType type_{{}, "MyBackward"};
  uint64_t vtable_ = 0;
  MetadataWriter words_;
  std::vector<bool> classes_;
  int symbols_asked_ = 0;
};

TEST_F(NameResolverTest, WhatOneProcessCannotTellAnotherOneDoes) {
  Node(ended_);
  EXPECT_EQ(names_.read_failed(), 1u);
  Node(live_);
  Node(live_);
  EXPECT_EQ(names_.read_failed(), 1u);
  EXPECT_THAT(classes_, testing::ElementsAre(true));
  const std::string words = Words();
  EXPECT_THAT(words, HasSubstr("torch::autograd::PyNode"));
  EXPECT_THAT(words, HasSubstr("MyBackward"));
}

TEST_F(NameResolverTest, PythonTypesLikewise) {
  RecordMaker job(live_);
  job.Node(1, 10, 1, 1, vtable_, /*python_type=*/8, "");  // the class alone can be read
  Observe(&job);
  EXPECT_EQ(names_.read_failed(), 1u);
  Node(ended_);
  EXPECT_EQ(names_.read_failed(), 2u);
  EXPECT_THAT(Words(), Not(HasSubstr("MyBackward")));
  Node(live_);
  EXPECT_THAT(Words(), HasSubstr("MyBackward"));
}

TEST_F(NameResolverTest, SymbolsLikewise) {
  Named(ended_);
  EXPECT_EQ(names_.read_failed(), 1u);
  Named(live_);
  Named(live_);
  EXPECT_EQ(symbols_asked_, 2);
  EXPECT_THAT(Words(), HasSubstr("prim::loop"));
}

TEST_F(NameResolverTest, AProcessIsAskedOnceUntilItEnds) {
  for (int i = 0; i < 3; ++i) Named(ended_);
  EXPECT_EQ(symbols_asked_, 1);
  EXPECT_EQ(names_.read_failed(), 1u);
  RecordMaker job(ended_);
  job.ThreadExit(1, 20, /*group_dead=*/true);
  Observe(&job);
  Named(ended_);  // another one with its PID
  EXPECT_EQ(symbols_asked_, 2);
}

}  // namespace
}  // namespace proftrace
