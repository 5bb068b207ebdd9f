// In which function of Python the driving thread was, by samples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include <string>
#include <vector>

#include "tests/support/system_events.h"
#include "tests/unit/why/why_fixture.h"
#include "userspace/why/rules.h"

namespace proftrace {
namespace {

using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

class PythonPlacesTest : public WhyTest {
 protected:
  // Adds a function that `caller` (0: nobody) calls. Returns its frame.
  uint32_t AddFrame(const std::string& name, int32_t line, uint32_t caller) {
    uint32_t function = 0;
    while (function < samples_.functions.size() && samples_.functions[function].name != name) {
      ++function;
    }
    if (function == samples_.functions.size()) {
      samples_.functions.push_back({Pid{7}, SampleFrameKind::kPython, name, "loop.py", 1});
    }
    samples_.frames.push_back({caller, function, line});
    return static_cast<uint32_t>(samples_.frames.size() - 1);
  }

  uint32_t AddNativeFrame(const std::string& name, const std::string& file, uint32_t caller) {
    const uint32_t frame = AddFrame(name, 0, caller);
    SampleFunction& function = samples_.functions[samples_.frames[frame].function];
    function.kind = SampleFrameKind::kNative;
    function.file = file;
    return frame;
  }

  // A look at the driving thread each `frames`' turn, outside of operators.
  Verdict WhyOf(const std::vector<uint32_t>& frames) {
    size_t turn = 0;
    MakeSteps([&](int, int64_t from_ns, int64_t) {
      for (int i = 0; i < 5; ++i) {
        samples_.samples.push_back({.time_ns = from_ns + i * kMs,
                                    .period_ns = kMs,
                                    .count = 1,
                                    .frame = frames[turn++ % frames.size()],
                                    .thread = thread_,
                                    .state = state_});
      }
    });
    maker_.SetSamples(samples_);
    return Why();
  }

  static std::string TextOf(const Verdict& verdict) {
    const std::optional<Finding> finding = FindKind(verdict, FindingKind::kPython);
    return finding.has_value() ? EvidenceOf(*finding) + "next: " + finding->next : "";
  }

  Samples samples_;
  SampleState state_ = SampleState::kRunning;
};

TEST_F(PythonPlacesTest, ATimeInWhichSamplesFindItWaitingIsNoTimeThatItRuns) {
  const uint32_t wait = AddNativeFrame("wait4", "/lib/libc.so.6", AddFrame("work", 3, 0));
  state_ = SampleState::kSleeping;
  const std::optional<Finding> finding = FindKind(WhyOf({wait}), FindingKind::kPython);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(finding->what, HasSubstr("the main thread waits, in no operator"));
}

TEST_F(PythonPlacesTest, AFunctionThatTakesMostIsNamedWithItsLine) {
  const uint32_t outer = AddFrame("train", 7, 0);
  EXPECT_THAT(TextOf(WhyOf({AddFrame("work", 3, outer), AddFrame("work", 3, outer),
                            AddFrame("work", 4, outer), AddFrame("other", 9, outer)})),
              HasSubstr("It was in loop.py(3): work for 75 % of that, by samples."));
}

// A library waits for the job: its function alone would not lead to the job's own line.
TEST_F(PythonPlacesTest, AWaitInALibraryHasTheJobsOwnLineNamed) {
  maker_.info().system.sched = maker_.info().system.calls = true;
  const SystemFileId socket =
      maker_.AddSystemFile(SystemFileKind::kSocket, "tcp:10.0.0.2:40000->10.0.0.1:80");
  const uint32_t own = AddFrame("report_metrics", 14, AddFrame("train", 30, 0));
  const uint32_t read = AddFrame("readinto", 706, own);
  SampleFunction& function = samples_.functions[samples_.frames[read].function];
  function.file = "socket.py";
  function.is_installed = true;
  MakeSteps([&](int, int64_t from_ns, int64_t to_ns) {
    SystemEvent call = MakeCall(thread_, "recvfrom", from_ns, to_ns, 4);
    call.file = socket;
    maker_.AddSystemEvent(call);
    samples_.samples.push_back(
        {.time_ns = from_ns + kMs, .period_ns = kMs, .count = 2, .frame = read, .thread = thread_});
  });
  maker_.SetSamples(samples_);
  const std::optional<Finding> finding = FindKind(Why(), FindingKind::kIo);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(EvidenceOf(*finding),
              HasSubstr("It was in socket.py(706): readinto for 100 % of that, by samples. By "
                        "samples, it was at loop.py(14): report_metrics (100 %)"));
}

// Sleeps are over before a sample can be taken of them: only looks at their ends are left.
TEST_F(PythonPlacesTest, ShortSleepsAreInTheFunctionThatLooksAroundThemFind) {
  maker_.info().system.sched = maker_.info().system.calls = true;
  const int32_t sleep = SystemCallNumber("clock_nanosleep");
  const uint32_t wait = AddFrame("wait_ready", 14, AddFrame("train", 30, 0));
  MakeSteps([&](int, int64_t from_ns, int64_t) {
    for (int i = 0; i < 25; ++i) {
      const int64_t at_ns = from_ns + i * kMs / 5;
      maker_.AddSystemEvent(
          MakeOffCpu(thread_, WaitReason::kSleep, at_ns, at_ns + kMs / 6, 0, "clock_nanosleep"));
      if (i == 3) {
        samples_.samples.push_back({.time_ns = at_ns + kMs / 6 + 1000,
                                    .period_ns = kMs,
                                    .count = 1,
                                    .frame = wait,
                                    .thread = thread_,
                                    .call = sleep,
                                    .state = SampleState::kRunnable});
      }
    }
  });
  maker_.SetSamples(samples_);
  const std::optional<Finding> finding = FindKind(Why(), FindingKind::kSleep);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("Samples at such calls were in "
                                              "loop.py(14): wait_ready for 100 %."));
}

// A library runs the loop, and calls the job back from between its own lines.
TEST_F(PythonPlacesTest, ALoopInALibraryHasTheJobsOwnLinesNamed) {
  const auto in_library = [this](const std::string& name, int32_t line, uint32_t caller) {
    const uint32_t frame = AddFrame(name, line, caller);
    SampleFunction& function = samples_.functions[samples_.frames[frame].function];
    function.file = "trainer/loops.py";
    function.is_installed = true;
    return frame;
  };
  const uint32_t fit = AddFrame("<module>", 50, 0);
  const uint32_t closure = in_library("closure", 81, in_library("advance", 352, fit));
  const uint32_t other = in_library("other", 90, in_library("advance", 360, fit));
  const uint32_t log = AddFrame("training_step", 20, in_library("call_hook", 155, closure));
  EXPECT_THAT(TextOf(WhyOf({AddFrame("work", 3, log), AddFrame("work", 4, log),
                            AddFrame("norm", 9, AddFrame("training_step", 22, closure)), other})),
              HasSubstr("By samples, it was at trainer/loops.py(352): advance (75 %), "
                        "trainer/loops.py(360): advance (25 %) and in what is called there; of the "
                        "job's own lines, at loop.py(3): work (25 %), "
                        "loop.py(4): work (25 %), loop.py(9): norm (25 %)."));
}

// A new epoch: a third of the looks between two steps find workers being started, and the others
// the DataLoader, or something else.
class BetweenStepsTest : public PythonPlacesTest {
 protected:
  std::optional<Finding> FindingWith(bool of_others) {
    const auto in_file = [this](const std::string& name, const std::string& file, uint32_t caller) {
      const uint32_t frame = AddFrame(name, 1, caller);
      SampleFunction& function = samples_.functions[samples_.frames[frame].function];
      function.file = file;
      function.is_installed = true;
      return frame;
    };
    const uint32_t train = AddFrame("train", 30, 0);
    const uint32_t next = in_file("__iter__", "torch/utils/data/dataloader.py", train);
    const uint32_t start = in_file("start", "multiprocessing/process.py", next);
    const uint32_t other = of_others ? in_file("save", "torch/serialization.py", train) : next;
    int turn = 0;
    MakeSteps(
        [&](int, int64_t from_ns, int64_t) {
          for (int look = 0; look < 4; ++look) {
            samples_.samples.push_back({.time_ns = from_ns + 8 * kMs + look * kMs / 2,
                                        .period_ns = kMs / 2,
                                        .count = 1,
                                        .frame = turn++ % 3 == 0 ? start : other,
                                        .thread = thread_});
          }
        },
        /*gap_ns=*/5 * kMs);
    maker_.info().window.duration_ns += kSteps * 5 * kMs;
    maker_.SetSamples(samples_);
    return FindKind(Why(), FindingKind::kBetweenSteps);
  }
};

TEST_F(BetweenStepsTest, WorkersThatAreStartedAnewAreTold) {
  const std::optional<Finding> finding = FindingWith(false);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(finding->what, HasSubstr("it starts workers of a DataLoader anew"));
  EXPECT_THAT(EvidenceOf(*finding), HasSubstr("persistent_workers=True spares that"));
}

TEST_F(BetweenStepsTest, WhatIsNotTheLoadersIsNotItsWorkers) {
  const std::optional<Finding> finding = FindingWith(true);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(finding->what, HasSubstr("checkpoints, evaluation, or the like"));
}

// Half of the looks find the loop's own line, which calls operators itself.
TEST_F(PythonPlacesTest, ALineThatDoesMostItselfIsNamedBesideWhatItCalls) {
  const uint32_t loop = AddFrame("loop", 5, AddFrame("<module>", 50, 0));
  const uint32_t train = AddFrame("train", 14, loop);
  EXPECT_THAT(TextOf(WhyOf({loop, loop, loop, train})),
              HasSubstr("By samples, it was at loop.py(5): loop (75 %), loop.py(14): train (25 %) "
                        "and in what is called there."));
}

// Half of each step are operators, and half is Python: the function has some of both.
class OwnPlaceTest : public PythonPlacesTest {
 protected:
  // `looks`: how many of the ten looks at a step find the function.
  std::string AboutWith(int looks) {
    const uint32_t script = AddFrame("<module>", 50, 0);
    const uint32_t batch = AddFrame("next_batch", 5, script);
    MakeSteps([&](int step, int64_t from_ns, int64_t) {
      maker_.Add(thread_, multiply_, from_ns, from_ns + 3 * kMs);
      for (int i = 0; i < 10; ++i) {
        samples_.samples.push_back({.time_ns = BeginOf(step) + i * kMs,
                                    .period_ns = kMs,
                                    .count = 1,
                                    .frame = i < looks ? batch : script,
                                    .thread = thread_});
      }
    });
    maker_.SetSamples(samples_);
    return Why().about;
  }
};

TEST_F(OwnPlaceTest, AFunctionThatHasMoreThanAnyFindingIsToldOf) {
  EXPECT_THAT(
      AboutWith(6),
      HasSubstr("Of all places loop.py(1): next_batch has most, with what it calls: 60 % of the "
                "samples"));
}

TEST_F(OwnPlaceTest, AFunctionThatHasLessIsNot) {
  EXPECT_THAT(AboutWith(5), Not(HasSubstr("Of all places")));
}

TEST_F(OwnPlaceTest, TheLoopItselfIsNot) {
  EXPECT_THAT(AboutWith(10), Not(HasSubstr("Of all places")));
}

// Half of the looks at the backward pass of a checkpoint are in its forward pass.
TEST_F(PythonPlacesTest, ASecondForwardPassIsToldOf) {
  const auto in_torch = [this](const std::string& name, const std::string& file, uint32_t caller) {
    const uint32_t frame = AddFrame(name, 1, caller);
    samples_.functions[samples_.frames[frame].function].file = file;
    return frame;
  };
  const uint32_t backward =
      in_torch("backward", "torch/utils/checkpoint.py", AddFrame("step", 9, 0));
  const uint32_t forward = AddFrame("run", 5, backward);
  const uint32_t inner = in_torch("inner", "torch/autograd/__init__.py", backward);
  MakeSteps([&](int, int64_t from_ns, int64_t to_ns) {
    maker_.Add(thread_, multiply_, from_ns, to_ns);
    for (int i = 0; i < 4; ++i) {
      samples_.samples.push_back({.time_ns = from_ns + i * kMs,
                                  .period_ns = kMs,
                                  .count = 1,
                                  .frame = i < 2 ? forward : inner,
                                  .thread = thread_});
    }
  });
  maker_.SetSamples(samples_);
  const StepParts parts = Parts();
  Finding finding;
  AddSecondForward(Case{*timeline_, aggregates_, parts, {}}, &finding);
  EXPECT_THAT(EvidenceOf(finding),
              HasSubstr("50 % of the samples there are in the forward pass that "
                        "torch.utils.checkpoint runs a second time"));
}

TEST_F(PythonPlacesTest, AThreadWithoutPythonHasItsNativeFunctionNamed) {
  const uint32_t decode = AddNativeFrame("decode_record", "/opt/libfast.so", 0);
  Finding finding;
  MakeSteps([&](int, int64_t from_ns, int64_t) {
    for (int i = 0; i < 5; ++i) {
      samples_.samples.push_back({.time_ns = from_ns + i * kMs,
                                  .period_ns = kMs,
                                  .count = 1,
                                  .frame = decode,
                                  .thread = other_});
    }
  });
  maker_.SetSamples(samples_);
  const StepParts parts = Parts();
  const Case job{*timeline_, aggregates_, parts, {}};
  EXPECT_EQ(AddPython(job, {{other_, parts.intervals}}, "That thread", &finding),
            PythonSource::kSamples);
  EXPECT_THAT(EvidenceOf(finding),
              HasSubstr("That thread runs no Python: it was in decode_record of libfast.so for 100 "
                        "% of that, by samples."));
}

TEST_F(PythonPlacesTest, AProfilerInTheJobIsToldOf) {
  const uint32_t step = AddFrame("step", 9, 0);
  const uint32_t parse = AddNativeFrame("torch::profiler::impl::RecordQueue::getRecords",
                                        "/opt/torch/lib/libtorch_cpu.so", step);
  EXPECT_THAT(
      WhyOf({step, step, step, parse}).remarks,
      Contains(HasSubstr("The job itself has torch.profiler switched on: its code is in 25 %")));
}

// torch.optim does this in each step.
TEST_F(PythonPlacesTest, AMarkedRangeIsNoProfiler) {
  const uint32_t step = AddFrame("step", 9, 0);
  const uint32_t range =
      AddNativeFrame("torch::autograd::profiler::record_function_enter_new(std::string const&)",
                     "/opt/torch/lib/libtorch_cpu.so", step);
  EXPECT_THAT(WhyOf({step, range}).remarks, Each(Not(HasSubstr("switched on"))));
}

TEST_F(PythonPlacesTest, ManyLinesOfAFunctionAreOneFunction) {
  std::vector<uint32_t> frames;
  for (int32_t line = 10; line < 40; ++line) frames.push_back(AddFrame("unrolled", line, 0));
  EXPECT_THAT(TextOf(WhyOf(frames)),
              HasSubstr("It was in loop.py(1): unrolled for 100 % of that, by samples."));
}

TEST_F(PythonPlacesTest, TimeOfManyFunctionsIsToldByTheirCaller) {
  const uint32_t train = AddFrame("train", 7, 0);
  const uint32_t step = AddFrame("optimizer_step", 30, train);
  std::vector<uint32_t> frames;
  for (int i = 0; i < 15; ++i) {
    const uint32_t caller = i < 10 ? AddFrame("optimizer_step", 30 + i, train) : train;
    frames.push_back(AddFrame("helper" + std::to_string(i), 50, caller));
  }
  frames.push_back(
      AddFrame("helper3", 50, AddFrame("recursive", 1, AddFrame("recursive", 2, step))));
  const std::string text = TextOf(WhyOf(frames));
  EXPECT_THAT(text, HasSubstr("It was in 15 functions, by samples; the most in "
                              "loop.py(50): helper3 ("));
  EXPECT_THAT(text, HasSubstr(" of it was in loop.py(1): optimizer_step and what that calls."));
  // No advice to do what was done.
  EXPECT_THAT(text, Not(HasSubstr("--sample")));
}

TEST_F(PythonPlacesTest, NativeCodeThatPythonCallsIsNamed) {
  const uint32_t train = AddFrame("train", 7, 0);
  const uint32_t interpreter = AddNativeFrame("cfunction_call", "/usr/bin/python3.11", train);
  const uint32_t dispatcher = AddNativeFrame("dispatcher", "/job/filters.so", interpreter);
  const uint32_t own = AddNativeFrame("slow_filter", "/job/filters.so", dispatcher);
  const Verdict verdict =
      WhyOf({AddNativeFrame("malloc", "/lib/libc.so.6", own), own, dispatcher, train});
  EXPECT_THAT(TextOf(verdict), HasSubstr("That is native code, not Python: 75 % of the samples are "
                                         "in filters.so, most of them in slow_filter."));
  EXPECT_THAT(FindKind(verdict, FindingKind::kPython)->what,
              HasSubstr("runs native code that is no operator"));
}

TEST_F(PythonPlacesTest, AFunctionThatFewLooksNameIsNotMostOfTheLibrary) {
  const uint32_t train = AddFrame("train", 7, 0);
  const uint32_t nameless = AddNativeFrame("", "/lib/libz.so.1", train);
  const uint32_t named = AddNativeFrame("adler32_z", "/lib/libz.so.1", train);
  const std::string text = TextOf(WhyOf({nameless, nameless, named}));
  EXPECT_THAT(text, HasSubstr("100 % of the samples are in libz.so.1."));
  EXPECT_THAT(text, Not(HasSubstr("adler32_z")));
}

TEST_F(PythonPlacesTest, WhatOnlyPassesCallsOnIsLeftOut) {
  const uint32_t glue = AddNativeFrame("call", "/lib/_ctypes.cpython-311-x86_64-linux-gnu.so",
                                       AddFrame("train", 7, 0));
  const uint32_t called =
      AddNativeFrame("work", "/job/libours.so", AddNativeFrame("", "/lib/libffi.so.8", glue));
  const uint32_t math = AddNativeFrame("dgesdd", "/lib/libopenblas.so", called);
  EXPECT_THAT(TextOf(WhyOf({math, math, called})),
              HasSubstr("100 % of the samples are in libours.so, most of them in libopenblas.so, "
                        "which that calls."));
}

TEST_F(PythonPlacesTest, PyTorchsOwnCodeIsNoExtension) {
  const uint32_t train = AddFrame("train", 7, 0);
  const uint32_t torch = AddFrame("torch::PythonArgParser::raw_parse", 0, train);
  samples_.functions.back().kind = SampleFrameKind::kNative;
  samples_.functions.back().file = "/venv/torch/lib/libtorch_python.so";
  const Verdict verdict = WhyOf({torch});
  EXPECT_THAT(TextOf(verdict), HasSubstr("That is PyTorch's own code around operators: 100 % of "
                                         "the samples are in libtorch_python.so"));
  EXPECT_THAT(FindKind(verdict, FindingKind::kPython)->what, Not(HasSubstr("native code")));
}

TEST_F(PythonPlacesTest, TheInterpretersOwnFunctionsArePython) {
  const uint32_t train = AddFrame("train", 7, 0);
  const uint32_t interpreter = AddFrame("list_sort", 0, train);
  samples_.functions.back().kind = SampleFrameKind::kNative;
  samples_.functions.back().file = "/usr/lib/libpython3.11.so.1.0";
  EXPECT_THAT(TextOf(WhyOf({interpreter})), Not(HasSubstr("native code")));
}

TEST_F(PythonPlacesTest, ACollectorThatRunsIsTold) {
  const uint32_t train = AddFrame("train", 7, 0);
  const uint32_t collector = AddFrame("gc_collect_main", 0, train);
  samples_.functions.back().kind = SampleFrameKind::kNative;
  samples_.functions.back().file = "/usr/bin/python3.11";
  EXPECT_THAT(TextOf(WhyOf({collector, collector, train})),
              HasSubstr("67 % of that, by samples, Python's garbage collector runs"));
}

// An interpreter without symbols, in a function that makes objects: `depth` functions without a
// name are in it.
class NamelessCollectorTest : public PythonPlacesTest {
 protected:
  std::string TextWith(int depth) {
    const uint32_t search = AddFrame("search", 12, AddFrame("train", 30, 0));
    uint32_t frame = AddNativeFrame("PyType_GenericAlloc", kInterpreter, search);
    for (int i = 0; i < depth; ++i) frame = AddNativeFrame("", kInterpreter, frame);
    return TextOf(WhyOf({frame}));
  }

  static constexpr char kInterpreter[] = "/usr/bin/python3.11";
};

TEST_F(NamelessCollectorTest, FunctionsThatCallEachOtherAreTheCollector) {
  EXPECT_THAT(TextWith(2), HasSubstr("100 % of that, by samples, Python's garbage collector runs"));
}

TEST_F(NamelessCollectorTest, OneAloneIsTheAllocator) {
  EXPECT_THAT(TextWith(1), Not(HasSubstr("collector")));
}

// Looks at the operator in the middle of each step.
class CalledPythonTest : public PythonPlacesTest {
 protected:
  uint32_t AddNative(const std::string& file, uint32_t caller) {
    return AddNativeFrame("native in " + file, file, caller);
  }

  Verdict WhyOfOperators(const std::vector<uint32_t>& frames) {
    size_t turn = 0;
    MakeSteps([&](int, int64_t from_ns, int64_t) {
      for (int i = 0; i < 4; ++i) {
        samples_.samples.push_back({.time_ns = from_ns - 2 * kMs + i * kMs / 2,
                                    .period_ns = kMs / 2,
                                    .count = 1,
                                    .frame = frames[turn++ % frames.size()],
                                    .thread = thread_,
                                    .state = state_});
      }
    });
    maker_.SetSamples(samples_);
    return Why();
  }

  uint32_t train_ = AddFrame("train", 7, 0);
  uint32_t operator_ = AddNative("/venv/torch/lib/libtorch_cpu.so", train_);
};

// oneDNN makes its kernels at run time, in memory that is of no file.
TEST_F(CalledPythonTest, KernelsMadeAtRunTimeAreNoForeignLibrary) {
  const uint32_t kernel = AddNativeFrame("", "", operator_);
  const auto finding =
      FindKind(WhyOfOperators({kernel, kernel, kernel, operator_}), FindingKind::kOperators);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(finding->what, HasSubstr("operators compute"));
  EXPECT_THAT(EvidenceOf(*finding), Not(HasSubstr("which is not PyTorch's")));
}

TEST_F(CalledPythonTest, AForeignLibraryInOperatorsIsNamed) {
  const uint32_t foreign = AddNativeFrame("arena_search", "/opt/libslowalloc.so", operator_);
  const uint32_t in_libc = AddNativeFrame("memset", "/usr/lib/libc.so.6", foreign);
  const Verdict verdict = WhyOfOperators({foreign, in_libc, in_libc, operator_});
  const auto finding = FindKind(verdict, FindingKind::kOperators);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(finding->what, HasSubstr("runs code of another library inside of operators"));
  EXPECT_THAT(finding->evidence.front(),
              HasSubstr("75 % of the samples there are in arena_search of libslowalloc.so"));
}

// The name of a library of one's own may begin like one of the GPU's.
TEST_F(CalledPythonTest, ALibraryOfOnesOwnIsForeignWhateverItsName) {
  const uint32_t foreign = AddNativeFrame("fill", "/opt/libcustom_alloc.so", operator_);
  const auto finding = FindKind(WhyOfOperators({foreign}), FindingKind::kOperators);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(finding->evidence.front(), HasSubstr("are in fill of libcustom_alloc.so"));
}

TEST_F(CalledPythonTest, LibrariesThatOperatorsAreMadeOfAreNotForeign) {
  const uint32_t gemm = AddNativeFrame("sgemm", "/opt/libmkl_avx512.so.2", operator_);
  const uint32_t threads = AddNativeFrame("do_spin", "/opt/libgomp-24e2ab19.so.1", operator_);
  const auto finding = FindKind(WhyOfOperators({gemm, threads}), FindingKind::kOperators);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(finding->what, HasSubstr("operators compute"));
}

TEST_F(CalledPythonTest, HooksAreNoOperator) {
  const uint32_t hook = AddFrame("hook", 3, operator_);
  const uint32_t sorted = AddNative("/usr/bin/python3.11", hook);
  const Verdict verdict = WhyOfOperators({hook, sorted, hook, operator_});
  ASSERT_FALSE(verdict.findings.empty());
  const auto calls_python = [](const Finding& finding) {
    return finding.what.find("runs Python that operators call") != std::string::npos;
  };
  const auto found = std::find_if(verdict.findings.begin(), verdict.findings.end(), calls_python);
  ASSERT_NE(found, verdict.findings.end());
  EXPECT_EQ(found->kind, FindingKind::kPython);
  EXPECT_EQ(found->next, "");
  EXPECT_THAT(EvidenceOf(*found),
              HasSubstr("75 % of the samples there are in Python that operators call: "
                        "most is in loop.py(3): hook, 100 % of these."));
}

// The hook calls a library: its own line is named beside the library's function.
TEST_F(CalledPythonTest, TheJobsOwnHookIsNamed) {
  const uint32_t hook = AddFrame("hook", 3, operator_);
  const uint32_t svd = AddFrame("svd", 90, hook);
  SampleFunction& function = samples_.functions[samples_.frames[svd].function];
  function.file = "numpy/linalg.py";
  function.is_installed = true;
  std::string evidence;
  for (const Finding& finding : WhyOfOperators({svd, svd, svd, operator_}).findings) {
    evidence += EvidenceOf(finding);
  }
  EXPECT_THAT(evidence, HasSubstr("most is in numpy/linalg.py(90): svd"));
  EXPECT_THAT(evidence, HasSubstr("Of the job's own lines, that is at loop.py(3): hook (100 %)."));
}

TEST_F(CalledPythonTest, OperatorsThatPythonCallsAreOperators) {
  const Verdict verdict = WhyOfOperators({operator_, AddNative("/lib/libc.so.6", operator_)});
  for (const Finding& finding : verdict.findings) {
    EXPECT_THAT(finding.what, Not(HasSubstr("that operators call")));
    EXPECT_THAT(EvidenceOf(finding), Not(HasSubstr("that operators call")));
  }
}

TEST_F(CalledPythonTest, StacksForEachOperatorAreExplained) {
  const uint32_t extract = AddFrame("extract", 3, operator_);
  samples_.functions.back().file = "traceback.py";
  const Verdict verdict = WhyOfOperators({extract, operator_, operator_});
  const std::optional<Finding> finding = FindKind(verdict, FindingKind::kOperators);
  const std::string text = finding.has_value() ? EvidenceOf(*finding) : "";
  EXPECT_THAT(text, HasSubstr("33 % of the samples there"));
  EXPECT_THAT(text, HasSubstr("set_detect_anomaly"));
}

// The lines of the loop say what the operators were called for, whatever is below them.
TEST_F(CalledPythonTest, TheLinesThatCallOperatorsAreNamed) {
  const uint32_t script = AddFrame("<module>", 50, 0);
  const uint32_t forward = AddFrame("train", 30, script);
  const uint32_t copy = AddFrame("train", 33, script);
  const Verdict verdict =
      WhyOfOperators({AddNative("/venv/torch/lib/libtorch_cpu.so", AddFrame("linear", 5, forward)),
                      AddNative("/venv/torch/lib/libtorch_cpu.so", AddFrame("relu", 6, forward)),
                      AddNative("/venv/torch/lib/libtorch_cpu.so", AddFrame("deepcopy", 7, copy))});
  const std::optional<Finding> finding = FindKind(verdict, FindingKind::kOperators);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(EvidenceOf(*finding),
              HasSubstr("By samples, it was at loop.py(30): train (67 %), "
                        "loop.py(33): train calling deepcopy (33 %) and in what is called there."));
}

TEST_F(CalledPythonTest, OneLineThatCallsNearlyAllIsNamedByTheJobsOwnLine) {
  const uint32_t script = AddFrame("<module>", 50, 0);
  const uint32_t snapshot = AddFrame("snapshot", 12, script);
  const uint32_t installed = AddFrame("deepcopy", 161, snapshot);
  samples_.functions.back().file = "/usr/lib/python3.11/copy.py";
  samples_.functions.back().is_installed = true;
  const Verdict verdict = WhyOfOperators({AddNative("/venv/torch/lib/libtorch_cpu.so", installed)});
  const std::optional<Finding> finding = FindKind(verdict, FindingKind::kOperators);
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(
      EvidenceOf(*finding),
      HasSubstr(
          "By samples, it was at loop.py(12): snapshot (100 %) and in what is called there."));
}

TEST_F(CalledPythonTest, LinesWithNextToNothingAreNotNamed) {
  std::vector<uint32_t> frames;
  for (int32_t line = 0; line < 16; ++line) {
    frames.push_back(
        AddNative("/venv/torch/lib/libtorch_cpu.so", AddFrame("unrolled", 100 + line, 0)));
  }
  for (const Finding& finding : WhyOfOperators(frames).findings) {
    EXPECT_THAT(EvidenceOf(finding), Not(HasSubstr("in what is called there")));
  }
}

TEST_F(PythonPlacesTest, WithoutSamplesTheyAreAdvised) {
  MakeSteps([](int, int64_t, int64_t) {});
  EXPECT_THAT(TextOf(Why()), HasSubstr("--sample 99Hz"));
}

}  // namespace
}  // namespace proftrace
