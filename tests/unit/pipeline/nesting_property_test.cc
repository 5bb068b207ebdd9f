// Random programs of calls, exceptions and lost records, laid beside the truth that made them.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tests/unit/pipeline/timeline.h"

namespace proftrace {
namespace {

// A call of the random program: what a perfect recording would say.
struct Truth {
  uint16_t site;
  int parent;  // index, -1 = none
  bool by_exception;
};

// Makes a thread's calls. Frames have random sizes; exceptions unwind a random number of calls and
// are caught at a stack pointer between two frames; each step takes a nanosecond.
class RandomProgram {
 public:
  explicit RandomProgram(uint32_t seed) : random_(seed) {}

  void Run(RecordMaker* maker, int steps) {
    uint32_t depth = 0;  // of the stack, in units of RecordMaker::Sp
    for (int i = 0; i < steps; ++i) {
      const int choice = Pick(100);
      if (open_.size() < 12 && choice < 50) {
        depth = (open_.empty() ? 0 : open_.back().depth) + 1 + static_cast<uint32_t>(Pick(5));
        Begin(maker, depth);
      } else if (!open_.empty() && choice < 90) {
        maker->End(1, ++ns_, truths_[open_.back().index].site, open_.back().depth);
        open_.pop_back();
      } else if (!open_.empty()) {
        Throw(maker);
      }
    }
    while (!open_.empty()) {
      maker->End(1, ++ns_, truths_[open_.back().index].site, open_.back().depth);
      open_.pop_back();
    }
  }

  const std::vector<Truth>& truths() const { return truths_; }

 private:
  struct Open {
    size_t index;
    uint32_t depth;
  };

  int Pick(int below) { return static_cast<int>(random_() % static_cast<uint32_t>(below)); }

  void Begin(RecordMaker* maker, uint32_t depth) {
    const auto site = static_cast<uint16_t>(1 + Pick(4));
    truths_.push_back(
        Truth{site, open_.empty() ? -1 : static_cast<int>(open_.back().index), false});
    maker->Begin(1, ++ns_, site, depth);
    open_.push_back(Open{truths_.size() - 1, depth});
  }

  void Throw(RecordMaker* maker) {
    const size_t unwound = 1 + static_cast<size_t>(Pick(static_cast<int>(open_.size())));
    for (size_t i = 0; i < unwound; ++i) {
      truths_[open_.back().index].by_exception = true;
      if (i + 1 == unwound) maker->Catch(1, ++ns_, RecordMaker::Sp(open_.back().depth));
      open_.pop_back();
    }
  }

  std::mt19937 random_;
  int64_t ns_ = 0;
  std::vector<Truth> truths_;
  std::vector<Open> open_;
};

TEST(NestingPropertyTest, EveryCallHasItsParentAndItsEnd) {
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    RecordMaker maker;
    RandomProgram program(seed);
    program.Run(&maker, 200);
    const auto timeline = Build(maker);
    ASSERT_EQ(timeline->span_count(), program.truths().size()) << "seed " << seed;
    int64_t roots_ns = 0;
    int64_t selves_ns = 0;
    for (uint32_t i = 0; i < timeline->span_count(); ++i) {
      const Span& span = timeline->span(SpanId{i});
      const Truth& truth = program.truths()[i];
      const int parent = span.parent == kNoSpan ? -1 : static_cast<int>(Raw(span.parent));
      ASSERT_EQ(parent, truth.parent) << "seed " << seed << ", call " << i;
      ASSERT_EQ(span.end, truth.by_exception ? SpanEnd::kException : SpanEnd::kReturn)
          << "seed " << seed << ", call " << i;
      ASSERT_LE(span.self_ns, span.duration_ns);
      selves_ns += span.self_ns;
      if (parent < 0) roots_ns += span.duration_ns;
    }
    ASSERT_EQ(selves_ns, roots_ns) << "self times add up to the roots, seed " << seed;
    ASSERT_EQ(timeline->ledger().unmatched_end, 0u);
  }
}

// Drops a stretch of records and announces it, as the kernel side does: no call may get a parent
// that it did not have.
TEST(NestingPropertyTest, AnnouncedLossNeverGivesAWrongParent) {
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    RecordMaker maker;
    RandomProgram program(seed);
    program.Run(&maker, 200);
    const std::vector<std::byte>& all = maker.bytes();
    const size_t count = all.size() / sizeof(abi::pt_record);
    std::mt19937 random(seed);
    const size_t first = random() % count;
    const size_t lost = 1 + random() % 20;

    RecordMaker lossy;
    std::map<int64_t, size_t> truth_by_time;  // of begins
    size_t begins = 0;
    for (size_t i = 0; i < count; ++i) {
      abi::pt_record record;
      std::memcpy(&record, all.data() + i * sizeof(record), sizeof(record));
      const auto ns = static_cast<int64_t>(record.time_ns);
      if (record.kind == abi::PT_SPAN_BEGIN) truth_by_time[ns] = begins++;
      if (i >= first && i < first + lost) continue;
      if (i == first + lost) lossy.Loss(1, ns, lost);
      lossy.Add(record);
    }
    const auto timeline = Build(lossy);
    for (uint32_t i = 0; i < timeline->span_count(); ++i) {
      const Span& span = timeline->span(SpanId{i});
      if (span.parent == kNoSpan) continue;  // cut off from its parents: allowed
      const Truth& truth = program.truths()[truth_by_time.at(span.start_ns)];
      const Span& parent = timeline->span(span.parent);
      ASSERT_EQ(static_cast<int>(truth_by_time.at(parent.start_ns)), truth.parent)
          << "seed " << seed << ", call " << i;
    }
  }
}

}  // namespace
}  // namespace proftrace
