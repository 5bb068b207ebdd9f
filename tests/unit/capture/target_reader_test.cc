// Readings by a worker that lasts: its end, however it comes, costs a question and never the
// others.
#include "userspace/capture/targets/target_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "symbols/process/process_memory.h"

namespace proftrace {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

const Pid kSelf{static_cast<uint32_t>(getpid())};

// "crash" ends the worker, "pid" says who it is; anything else comes back.
std::string Echo(Pid, std::string_view input) {
  if (input == "crash") raise(SIGSEGV);
  if (input == "pid") return std::to_string(getpid());
  for (volatile bool hangs = input == "hang"; hangs;) {
  }
  return std::string(input);
}

TEST(TargetReaderTest, ReadsInOneProcessThatLasts) {
  TargetReader reader("test-reader", "reads tests", Echo);
  const std::string pid = reader.AskNow({kSelf, 1, "pid"});
  EXPECT_NE(pid, std::to_string(getpid()));
  EXPECT_EQ(reader.AskNow({kSelf, 1, "word"}), "word");
  EXPECT_EQ(reader.AskNow({kSelf, 1, "pid"}), pid);
  EXPECT_THAT(reader.failure(), IsEmpty());
}

TEST(TargetReaderTest, ReadsTheMemoryOfItsTarget) {
  static const uint64_t word = 0x1122334455667788;
  TargetReader reader("test-reader", "reads tests", [](Pid pid, std::string_view) {
    return std::to_string(
        ProcessMemory(pid).ReadWord(reinterpret_cast<uint64_t>(&word)).value_or(0));
  });
  EXPECT_EQ(reader.AskNow({kSelf, 1, "word"}), std::to_string(word));
}

TEST(TargetReaderTest, ACrashCostsTheProcessThatItIsAbout) {
  TargetReader reader("test-reader", "reads tests", Echo);
  const Pid other{Raw(kSelf) + 1};
  const std::string first = reader.AskNow({kSelf, 1, "pid"});
  EXPECT_EQ(reader.AskNow({other, 2, "crash"}), "");
  EXPECT_EQ(reader.AskNow({other, 2, "word"}), "");
  EXPECT_EQ(reader.AskNow({kSelf, 1, "word"}), "word");
  EXPECT_NE(reader.AskNow({kSelf, 1, "pid"}), first);
  EXPECT_THAT(reader.failure(), HasSubstr("the process that reads tests ended by Segmentation"));
}

TEST(TargetReaderTest, OneThatIsKilledWhileItWaitsCostsNothing) {
  TargetReader reader("test-reader", "reads tests", Echo);
  kill(std::stoi(reader.AskNow({kSelf, 1, "pid"})), SIGKILL);
  EXPECT_EQ(reader.AskNow({kSelf, 1, "word"}), "word");
  EXPECT_THAT(reader.failure(), HasSubstr("was killed"));
}

TEST(TargetReaderTest, NothingIsReadAfterTooManyCrashes) {
  TargetReader reader("test-reader", "reads tests", Echo);
  for (uint32_t i = 1; i <= 10; ++i) reader.AskNow({Pid{Raw(kSelf) + i}, i, "crash"});
  EXPECT_EQ(reader.AskNow({kSelf, 1, "word"}), "");
  EXPECT_THAT(reader.failure(), HasSubstr("nothing more was read"));
}

TEST(TargetReaderTest, TheEndAnswersWhatWasAskedAndWaitsForNobody) {
  std::vector<std::string> answers;
  {
    TargetReader reader("test-reader", "reads tests", Echo);
    for (int i = 0; i < 100; ++i) {
      reader.Ask({kSelf, 1, std::to_string(i)},
                 [&answers](std::string_view answer) { answers.emplace_back(answer); });
    }
    reader.Finish(10'000'000'000);
    EXPECT_EQ(answers.size(), 100u);
    EXPECT_EQ(answers.back(), "99");
    EXPECT_EQ(reader.AskNow({kSelf, 1, "word"}), "");
    EXPECT_THAT(reader.failure(), IsEmpty());
  }
  TargetReader reader("test-reader", "reads tests", Echo);
  bool was_answered = false;
  reader.Ask({kSelf, 1, "hang"}, [&](std::string_view answer) { was_answered = answer.empty(); });
  reader.Finish(100'000'000);
  EXPECT_TRUE(was_answered);
}

}  // namespace
}  // namespace proftrace
