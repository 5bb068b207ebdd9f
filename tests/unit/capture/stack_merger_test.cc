#include "userspace/capture/records/stack_merger.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "bpf/abi/records.h"

namespace proftrace {
namespace {

constexpr uint32_t kPid = 40;
constexpr uint32_t kThread = 41;

template <typename Record>
std::vector<std::byte> Bytes(Record record, uint8_t kind, size_t bytes = sizeof(Record)) {
  record.head.pid = kPid;
  record.head.tid = record.head.tid == 0 ? kThread : record.head.tid;
  record.head.kind = kind;
  record.head.words = static_cast<uint8_t>(bytes / 8);
  std::vector<std::byte> made(bytes);
  std::memcpy(made.data(), &record, bytes);
  return made;
}

struct Row {
  abi::pt_record head{};
};

std::optional<uint32_t> NoCopy(Pid, uint64_t, uint32_t) { return std::nullopt; }

// The copies that a test has: number n of the code at kCopied begins 1000 * n instructions behind.
constexpr uint64_t kCopied = 0x5000;
std::optional<uint32_t> DistanceOfCopy(Pid pid, uint64_t code, uint32_t copy) {
  if (Raw(pid) != kPid || code != kCopied || copy > 2) return std::nullopt;
  return 1000 * copy;
}

// What the decoder knows of a thread, by what comes out.
class Merged {
 public:
  void Add(const std::vector<std::byte>& record, RecordOrigin origin) {
    const auto take = [this](std::span<const std::byte> out) { Take(out); };
    const std::span<const std::byte> left = merger_.Observe(record, origin, take);
    if (!left.empty()) merger_.Add(left, origin, take);
  }
  void Code(uint32_t id, const std::string& name, RecordOrigin origin, uint32_t tid = kThread,
            uint32_t copy = 0) {
    abi::pt_python_code_record code{};
    code.head.tid = tid;
    code.head.sp = copy;
    code.address = kCopied;
    code.id = id;
    Add(Bytes(code, abi::PT_PYTHON_CODE), origin);
    abi::pt_python_text_record text{};
    text.head.tid = tid;
    text.id = id;
    text.part = abi::PT_PYTHON_NAME;
    text.bytes = static_cast<uint16_t>(name.size());
    text.total = text.bytes;
    text.width = 1;
    std::memcpy(text.text, name.data(), name.size());
    Add(Bytes(text, abi::PT_PYTHON_TEXT, PT_PYTHON_TEXT_HEAD_BYTES + PT_PYTHON_TEXT_BYTES), origin);
  }
  void Stack(uint16_t common, const std::vector<uint64_t>& words, RecordOrigin origin,
             uint32_t tid = kThread) {
    abi::pt_python_stack_record stack{};
    stack.head.tid = tid;
    stack.common = common;
    for (size_t i = 0; i < words.size(); ++i) {
      ++stack.count;
      if ((words[i] & PT_PYTHON_FRAME_HAS_MODULE) != 0) ++i;
    }
    std::memcpy(stack.words, words.data(), words.size() * 8);
    Add(Bytes(stack, abi::PT_PYTHON_STACK, PT_PYTHON_STACK_HEAD_BYTES + words.size() * 8), origin);
  }
  // The frames' words that a row of this origin begins with.
  std::vector<uint64_t> RowOf(RecordOrigin origin, uint32_t tid = kThread) {
    Row row;
    row.head.tid = tid;
    Add(Bytes(row, abi::PT_SPAN_BEGIN), origin);
    return stacks[tid];
  }

  std::map<uint32_t, std::vector<uint64_t>> stacks;  // by tid
  std::map<uint32_t, std::string> names;             // of code, by number
  size_t codes = 0;
  size_t modules = 0;
  size_t classes = 0;

 private:
  void Take(std::span<const std::byte> out) {
    abi::pt_record head{};
    std::memcpy(&head, out.data(), sizeof(head));
    ASSERT_EQ(out.size(), size_t{head.words} * 8);
    codes += head.kind == abi::PT_PYTHON_CODE;
    EXPECT_EQ(head.sp, 0u);
    modules += head.kind == abi::PT_PYTHON_MODULE;
    if (head.kind == abi::PT_LOSS) stacks[head.tid].clear();
    if (head.kind == abi::PT_PYTHON_TEXT) {
      abi::pt_python_text_record text{};
      std::memcpy(&text, out.data(), std::min(out.size(), sizeof(text)));
      classes += text.part == abi::PT_PYTHON_CLASS_NAME;
      names[text.id] = std::string(reinterpret_cast<const char*>(text.text), text.bytes);
    }
    if (head.kind != abi::PT_PYTHON_STACK) return;
    abi::pt_python_stack_record stack{};
    std::memcpy(&stack, out.data(), out.size());
    std::vector<uint64_t>& frames = stacks[head.tid];
    ASSERT_LE(stack.common, frames.size());
    frames.resize(stack.common);
    // Stacks with modules have one frame.
    const size_t words = (out.size() - PT_PYTHON_STACK_HEAD_BYTES) / 8;
    frames.insert(frames.end(), stack.words, stack.words + words);
  }

  StackMerger merger_{DistanceOfCopy};
};

uint64_t Frame(uint64_t code, uint64_t instruction) { return code << 32 | instruction; }
uint64_t Jumped(uint64_t code, uint64_t instruction) {
  return Frame(StackMerger::kFirstCode + code, instruction);
}

using Words = std::vector<uint64_t>;

// A job that makes functions by exec() for ever, called by one that stays.
TEST(StackMerger, ACodeThatStacksHaveStaysKnownAmongAnyNumberOfOthers) {
  StackMerger merger(NoCopy);
  uint64_t failed = 0;
  const auto take = [](std::span<const std::byte>) {};
  const auto tell_code = [&](uint32_t id) {
    abi::pt_python_code_record code{};
    code.id = id;
    code.first_line = static_cast<int32_t>(id);
    merger.Observe(Bytes(code, abi::PT_PYTHON_CODE), RecordOrigin::kJump, take);
  };
  constexpr uint32_t kCodes = 1'300'000;
  tell_code(1);
  for (uint32_t id = 2; id <= kCodes; ++id) {
    tell_code(id);
    if (id % 1000 != 0) continue;
    abi::pt_python_stack_record stack{};
    stack.count = 2;
    stack.words[0] = Frame(1, id);
    stack.words[1] = Frame(id, 5);
    const std::vector<std::byte> told =
        Bytes(stack, abi::PT_PYTHON_STACK, PT_PYTHON_STACK_HEAD_BYTES + 16);
    const std::span<const std::byte> left = merger.Observe(told, RecordOrigin::kJump, take);
    abi::pt_python_stack_record seen{};
    std::memcpy(&seen, left.data(), left.size());
    failed += seen.flags != 0 || seen.count != 2;
  }
  EXPECT_EQ(failed, 0u);
}

TEST(StackMerger, AThreadsEndThatIsSeenBeforeItsLastStackTakesNoCodeAway) {
  StackMerger merger(NoCopy);
  std::vector<std::byte> out;
  const auto take = [&out](std::span<const std::byte> record) {
    out.assign(record.begin(), record.end());
  };
  abi::pt_python_code_record code{};
  code.id = 7;
  EXPECT_TRUE(merger.Observe(Bytes(code, abi::PT_PYTHON_CODE), RecordOrigin::kJump, take).empty());
  const std::vector<std::byte> exit = Bytes(abi::pt_exit_record{}, abi::PT_THREAD_EXIT);
  EXPECT_FALSE(merger.Observe(exit, RecordOrigin::kProbe, take).empty());
  abi::pt_python_stack_record stack{};
  stack.count = 1;
  stack.words[0] = Frame(7, 5);
  const std::vector<std::byte> told =
      Bytes(stack, abi::PT_PYTHON_STACK, PT_PYTHON_STACK_HEAD_BYTES + 8);
  const std::span<const std::byte> left = merger.Observe(told, RecordOrigin::kJump, take);
  abi::pt_python_stack_record seen{};
  ASSERT_EQ(left.size(), told.size());
  std::memcpy(&seen, left.data(), left.size());
  EXPECT_EQ(seen.flags, 0);
  EXPECT_EQ(seen.words[0], Jumped(0, 5));
  // Others of the process may have that code, too: those that go on with its slot.
  merger.Add(exit, RecordOrigin::kProbe, take);
  abi::pt_python_stack_record others = stack;
  others.head.tid = kThread + 1;
  EXPECT_EQ(merger
                .Observe(Bytes(others, abi::PT_PYTHON_STACK, PT_PYTHON_STACK_HEAD_BYTES + 8),
                         RecordOrigin::kJump, take)
                .size(),
            told.size());
}

TEST(StackMerger, EachRowHasTheStackOfItsOwnSource) {
  Merged merged;
  merged.Code(1, "f", RecordOrigin::kJump);
  merged.Code(2, "g", RecordOrigin::kJump);
  merged.Stack(0, {Frame(1, 5), Frame(2, 6)}, RecordOrigin::kJump);
  EXPECT_EQ(merged.RowOf(RecordOrigin::kJump), (Words{Jumped(0, 5), Jumped(1, 6)}));
  merged.Code(1, "f", RecordOrigin::kProbe);
  merged.Stack(0, {Frame(1, 5)}, RecordOrigin::kProbe);
  EXPECT_EQ(merged.RowOf(RecordOrigin::kProbe), (Words{Frame(1, 5)}));
  // The stack tells only what is new since the last one of its own source.
  merged.Stack(1, {Frame(2, 7)}, RecordOrigin::kJump);
  EXPECT_EQ(merged.RowOf(RecordOrigin::kJump), (Words{Jumped(0, 5), Jumped(1, 7)}));
  EXPECT_EQ(merged.RowOf(RecordOrigin::kProbe), (Words{Frame(1, 5)}));
  EXPECT_EQ(merged.RowOf(RecordOrigin::kJump), (Words{Jumped(0, 5), Jumped(1, 7)}));
  EXPECT_EQ(merged.names[StackMerger::kFirstCode + 1], "g");
}

TEST(StackMerger, CodeThatThreadsTellOfIsOne) {
  Merged merged;
  merged.Code(1, "f", RecordOrigin::kJump, 50);
  merged.Code(2, "f", RecordOrigin::kJump, 51);
  merged.Stack(0, {Frame(2, 9)}, RecordOrigin::kJump, 51);
  merged.Stack(0, {Frame(1, 9)}, RecordOrigin::kJump, 50);
  EXPECT_EQ(merged.codes, 1u);
  EXPECT_EQ(merged.RowOf(RecordOrigin::kJump, 50), (Words{Jumped(0, 9)}));
  EXPECT_EQ(merged.RowOf(RecordOrigin::kJump, 51), (Words{Jumped(0, 9)}));
}

// In a free-threaded CPython threads run copies of its instructions.
TEST(StackMerger, InstructionsOfCopiesAreThoseOfTheCode) {
  Merged merged;
  merged.Code(1, "f", RecordOrigin::kJump, 50, 0);
  merged.Code(2, "f", RecordOrigin::kJump, 51, 1);
  merged.Code(3, "f", RecordOrigin::kJump, 52, 2);
  merged.Code(4, "f", RecordOrigin::kJump, 53, 3);
  merged.Stack(0, {Frame(1, 9)}, RecordOrigin::kJump, 50);
  merged.Stack(0, {Frame(2, 1009)}, RecordOrigin::kJump, 51);
  merged.Stack(0, {Frame(3, 2009)}, RecordOrigin::kJump, 52);
  merged.Stack(0, {Frame(4, 3009)}, RecordOrigin::kJump, 53);
  EXPECT_EQ(merged.codes, 1u);
  for (const uint32_t tid : {50, 51, 52}) {
    EXPECT_EQ(merged.RowOf(RecordOrigin::kJump, tid), (Words{Jumped(0, 9)})) << tid;
  }
  // Where a copy lies that is not known: as before the first instruction.
  EXPECT_EQ(merged.RowOf(RecordOrigin::kJump, 53), (Words{Jumped(0, UINT32_MAX)}));
}

TEST(StackMerger, ALossOfOneSourceLeavesTheOthersStack) {
  Merged merged;
  merged.Code(1, "f", RecordOrigin::kJump);
  merged.Stack(0, {Frame(1, 5)}, RecordOrigin::kJump);
  merged.Code(1, "p", RecordOrigin::kProbe);
  merged.Stack(0, {Frame(1, 3)}, RecordOrigin::kProbe);
  (void)merged.RowOf(RecordOrigin::kProbe);
  merged.Add(Bytes(abi::pt_pointer_record{}, abi::PT_LOSS), RecordOrigin::kProbe);
  EXPECT_EQ(merged.RowOf(RecordOrigin::kJump), (Words{Jumped(0, 5)}));
  EXPECT_EQ(merged.RowOf(RecordOrigin::kProbe), Words{});
  // Its next one must be whole.
  merged.Stack(1, {Frame(1, 4)}, RecordOrigin::kProbe);
  EXPECT_EQ(merged.RowOf(RecordOrigin::kProbe), Words{});
  merged.Stack(0, {Frame(1, 4)}, RecordOrigin::kProbe);
  EXPECT_EQ(merged.RowOf(RecordOrigin::kProbe), (Words{Frame(1, 4)}));
}

TEST(StackMerger, CodeThatWasNotToldOfHasNoStack) {
  Merged merged;
  merged.Stack(0, {Frame(8, 5)}, RecordOrigin::kJump);
  EXPECT_EQ(merged.RowOf(RecordOrigin::kJump), Words{});
}

TEST(StackMerger, AModuleIsToldOnceUntilItsPlaceIsAnothers) {
  Merged merged;
  const auto tell = [&merged](uint64_t type, RecordOrigin origin) {
    abi::pt_pair_record pair{};
    pair.handle = 0x1000;
    pair.object = type;
    merged.Add(Bytes(pair, abi::PT_PYTHON_MODULE), origin);
    abi::pt_python_text_record name{};
    name.part = abi::PT_PYTHON_CLASS_NAME;
    merged.Add(Bytes(name, abi::PT_PYTHON_TEXT, PT_PYTHON_TEXT_HEAD_BYTES + PT_PYTHON_TEXT_BYTES),
               origin);
  };
  tell(1, RecordOrigin::kJump);
  tell(1, RecordOrigin::kProbe);
  EXPECT_EQ(merged.modules, 1u);
  EXPECT_EQ(merged.classes, 1u);
  tell(2, RecordOrigin::kJump);
  EXPECT_EQ(merged.modules, 2u);
  merged.Add(Bytes(Row{}, abi::PT_EXEC), RecordOrigin::kProbe);
  tell(2, RecordOrigin::kJump);
  EXPECT_EQ(merged.modules, 3u);
  EXPECT_EQ(merged.classes, 3u);
}

TEST(StackMerger, AStackKeepsTheModuleThatItsThreadMeant) {
  Merged merged;
  const auto tell = [&merged](uint64_t type, RecordOrigin origin, uint32_t tid) {
    abi::pt_pair_record pair{};
    pair.head.tid = tid;
    pair.handle = 0x1000;
    pair.object = type;
    merged.Add(Bytes(pair, abi::PT_PYTHON_MODULE), origin);
  };
  const uint64_t frame = Frame(1, 5) | PT_PYTHON_FRAME_HAS_MODULE;
  const uint64_t jumped = Jumped(0, 5) | PT_PYTHON_FRAME_HAS_MODULE;
  const auto later = [](uint64_t number) {
    return number << PT_PYTHON_MODULE_ADDRESS_BITS | 0x1000;
  };
  merged.Code(1, "f", RecordOrigin::kJump);
  tell(1, RecordOrigin::kJump, kThread);
  merged.Stack(0, {frame, 0x1000}, RecordOrigin::kJump);
  EXPECT_EQ(merged.RowOf(RecordOrigin::kJump), (Words{jumped, 0x1000}));
  // Another one lies there now, for the other thread as well.
  tell(2, RecordOrigin::kJump, 50);
  merged.Stack(0, {frame, 0x1000}, RecordOrigin::kJump, 50);
  EXPECT_EQ(merged.RowOf(RecordOrigin::kJump, 50), (Words{jumped, later(1)}));
  // What waits is the first thread's, which means the first one.
  merged.Stack(0, {frame, 0x1000}, RecordOrigin::kJump);
  EXPECT_EQ(merged.RowOf(RecordOrigin::kJump), (Words{jumped, 0x1000}));
  tell(1, RecordOrigin::kJump, kThread);
  merged.Stack(0, {frame, 0x1000}, RecordOrigin::kJump);
  EXPECT_EQ(merged.RowOf(RecordOrigin::kJump), (Words{jumped, later(2)}));
  // Probes tell for all threads of the process.
  tell(3, RecordOrigin::kProbe, 50);
  merged.Stack(0, {frame, 0x1000}, RecordOrigin::kProbe);
  EXPECT_EQ(merged.RowOf(RecordOrigin::kProbe), (Words{frame, later(3)}));
}

TEST(StackMerger, ADeepStackOfModulesComesInTwoRecords) {
  Merged merged;
  merged.Code(1, "f", RecordOrigin::kJump);
  for (uint16_t part = 0; part < 3; ++part) {
    Words words(100, Frame(1, part));
    merged.Stack(static_cast<uint16_t>(part * 100), words, RecordOrigin::kJump);
  }
  EXPECT_EQ(merged.RowOf(RecordOrigin::kJump).size(), 300u);
  merged.Stack(0, {}, RecordOrigin::kProbe);
  EXPECT_EQ(merged.RowOf(RecordOrigin::kProbe), Words{});
  EXPECT_EQ(merged.RowOf(RecordOrigin::kJump).size(), 300u);
}

}  // namespace
}  // namespace proftrace
