// Names that records refer to, read from processes: from this one, and from one that has ended.
#include "userspace/capture/names/name_resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "symbols/process/cache_bytes.h"
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
                      [](Pid) { return std::optional(SymbolList()); },
                      [this](TargetReader::Question question, TargetReader::OnRead on_read) {
                        if (waits_) {
                          waiting_.emplace_back(std::move(question), std::move(on_read));
                        } else {
                          on_read(Answer(question));
                        }
                      }};

  // Symbols are made up: a list of them takes a PyTorch.
  std::string Answer(const TargetReader::Question& question) {
    if (question.input != AskSymbol(SymbolList(), 7) &&
        question.input != AskSymbol(SymbolList{{}, 0x5000, false}, 7)) {
      return ReadTargetWords(question.pid, question.input);
    }
    ++symbols_asked_;
    CacheWriter out;
    out.Number(uint64_t{0x5000});
    out.Text("prim::loop");
    return Raw(question.pid) == live_ ? out.Take() : "";
  }
  void AnswerAll() {
    for (auto& [question, on_read] : std::exchange(waiting_, {})) on_read(Answer(question));
  }

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
  bool waits_ = false;
  std::vector<std::pair<TargetReader::Question, TargetReader::OnRead>> waiting_;
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

// The reader may take its time: records come meanwhile, and each thing is asked for once.
TEST_F(NameResolverTest, TypesWaitForTheirClass) {
  waits_ = true;
  for (int i = 0; i < 3; ++i) Node(live_);
  EXPECT_EQ(waiting_.size(), 1u);
  AnswerAll();  // the class
  EXPECT_THAT(classes_, testing::ElementsAre(true));
  EXPECT_EQ(waiting_.size(), 1u);
  AnswerAll();  // the type
  EXPECT_THAT(Words(), HasSubstr("MyBackward"));
  Node(live_);
  EXPECT_TRUE(waiting_.empty());
  EXPECT_EQ(names_.read_failed(), 0u);
}

TEST_F(NameResolverTest, AnAnswerThatIsTooLongIsNone) {
  waits_ = true;
  Node(live_);
  ASSERT_EQ(waiting_.size(), 1u);
  waiting_.front().second(std::string(size_t{1} << 20, 'x'));
  EXPECT_EQ(names_.read_failed(), 1u);
  EXPECT_THAT(Words(), Not(HasSubstr("xxx")));
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
