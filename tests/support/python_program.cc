#include "tests/support/python_program.h"

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "tests/support/system_events.h"
#include "tests/support/timeline_maker.h"

namespace proftrace {
namespace {

constexpr int64_t kStartNs = 5'000'000'000;

class Program {
 public:
  explicit Program(uint32_t seed, bool makes_calls) : random_(seed), makes_calls_(makes_calls) {
    maker_.info().system.calls = makes_calls;
    for (int i = 0; i < 3; ++i) {
      codes_.push_back(maker_.AddCode("job.py", "f" + std::to_string(i), 10 * i + 1));
    }
    const std::string long_folder =
        "a/rather/long/path/that/does/not/fit/the/column/of/the/table/π";
    codes_.push_back(maker_.AddCode(long_folder + "/layers/linear.py", "forward", 31));
    codes_.push_back(maker_.AddCode("torch/autograd/__init__.py", "backward", 41));
    codes_.push_back(maker_.AddCode("torch/autograd/profiler.py", "__enter__", 1));
    for (uint32_t i = 0; i < 2; ++i) {
      PythonModule module;
      module.class_name = "Linear";
      module.number = i;
      module.path = "layers." + std::to_string(i);
      module.has_path = true;
      modules_.push_back(maker_.AddModule(module));
    }
  }

  std::unique_ptr<Timeline> Run(uint32_t spans) {
    spans_ = spans;
    while (made_ < spans_) Call(kNoStack, 0);
    maker_.info().window.duration_ns = now_ns_ - kStartNs;
    return maker_.Finish();
  }

 private:
  uint32_t Below(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }
  int64_t Tick() { return now_ns_ += 100 * (1 + Below(90)); }

  void Call(StackId caller, int depth) {
    const uint32_t code = codes_[Below(5)];
    const uint32_t module = Below(3) == 0 ? modules_[Below(2)] : 0;
    const uint32_t statements = 1 + Below(6);
    for (uint32_t at = 0; at < statements && made_ < spans_; ++at) {
      Do(maker_.AddFrame(caller, code, at, module), caller, code, module, &at, depth);
    }
  }

  void Do(StackId frame, StackId caller, uint32_t code, uint32_t module, uint32_t* at, int depth) {
    const uint32_t what = depth > 6 ? 9 : Below(10);
    if (what < 3) {
      Call(frame, depth + 1);
    } else if (what == 3) {  // with record_function(): the function goes on inside
      Begin(maker_.AddAnnotation("a"), maker_.AddFrame(frame, codes_[5]));
      for (int i = 0; i < 3; ++i) {
        Do(maker_.AddFrame(caller, code, ++*at, module), caller, code, module, at, depth + 1);
      }
      maker_.End(thread_, Tick());
    } else if (what == 4) {  // an operator that calls Python
      Begin(maker_.AddOperator("aten::custom"), frame);
      Call(frame, depth + 1);
      maker_.End(thread_, Tick());
    } else if (what == 5) {
      const SpanId node = Begin(maker_.AddOperator("AddBackward0"), maker_.AddFrame(frame, code));
      Require(maker_.SetSequence(node, {.number_plus_1 = 1, .forward_number = 1}));
      Begin(maker_.AddOperator("aten::inside"), maker_.AddFrame(frame, code, 7));
      maker_.End(thread_, Tick());
      maker_.End(thread_, Tick());
    } else {
      Begin(maker_.AddOperator("aten::a"), frame);
      if (Below(3) == 0) {
        Begin(maker_.AddOperator("aten::b"), frame);
        maker_.End(thread_, Tick());
      }
      maker_.End(thread_, Tick());
    }
  }

  static void Require(const absl::Status& status) {
    if (!status.ok()) std::abort();
  }

  SpanId Begin(LabelId label, StackId stack) {
    if (makes_calls_) {
      const int64_t start_ns = Tick();
      maker_.AddSystemEvent(MakeCall(thread_, "getppid", start_ns, Tick(), 1));
    }
    const SpanId span = maker_.Begin(thread_, label, Tick());
    Require(maker_.SetStack(span, stack));
    ++made_;
    return span;
  }

  std::mt19937 random_;
  const bool makes_calls_;
  TimelineMaker maker_;
  ThreadIndex thread_ = maker_.AddThread(4711, 4711, "python3");
  std::vector<uint32_t> codes_;
  std::vector<uint32_t> modules_;
  int64_t now_ns_ = kStartNs;
  uint32_t made_ = 0;
  uint32_t spans_ = 0;
};

}  // namespace

std::unique_ptr<Timeline> MakePythonTimeline(uint32_t seed, uint32_t spans, bool makes_calls) {
  return Program(seed, makes_calls).Run(spans);
}

}  // namespace proftrace
