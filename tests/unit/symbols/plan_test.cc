// Plans itself: this program exports functions and a list of operators that look like torch's.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <list>
#include <string>

#include "symbols/plan/module_reader.h"
#include "symbols/plan/planner.h"
#include "symbols/process/process_maps.h"
#include "userspace/base/exit_status.h"

namespace at::_ops {

// A kernel that the compiler must not see through.
using Kernel = int (*)(int);
extern Kernel volatile kernel;
Kernel volatile kernel = +[](int x) { return x + 1; };
extern void* volatile to_free;
void* volatile to_free = nullptr;

struct add_Tensor {
  [[gnu::noinline, gnu::used]] static int call(int x) {
    const int y = kernel(x);
    if (to_free != nullptr) asm volatile("nop");
    return y;
  }
};
struct size_int {
  [[gnu::noinline, gnu::used]] static int call(int x) { return kernel(x) + 2; }
};
struct unlisted {
  [[gnu::noinline, gnu::used]] static int call(int x) { return kernel(x) + 3; }
};

// Odr-uses, so that the members are emitted.
extern int (*const calls[])(int);
int (*const calls[])(int) = {&add_Tensor::call, &size_int::call, &unlisted::call};

}  // namespace at::_ops

namespace c10 {

// As in libc10: what allocates tells of it here.
struct ProfiledCPUMemoryReporter {
  [[gnu::noinline, gnu::used]] void New(void* block, unsigned long bytes);
  [[gnu::noinline, gnu::used]] void Delete(void* block);
};
void ProfiledCPUMemoryReporter::New(void* block, unsigned long bytes) {
  if (at::_ops::kernel(static_cast<int>(bytes)) == 0) at::_ops::to_free = block;
}
void ProfiledCPUMemoryReporter::Delete(void* block) {
  if (at::_ops::kernel(1) == 0) at::_ops::to_free = block;
}

}  // namespace c10

namespace {

struct FakeOperator {
  std::string name;
  std::string overload_name;
};
std::list<FakeOperator> fake_dispatcher = {
    {"aten::add", "Tensor"}, {"aten::size", "int"}, {"mylib::a_custom_operator", ""}};

}  // namespace

// c10::Dispatcher::singleton()::s: a pointer to the Dispatcher, whose first member is its list of
// operators.
extern void* fake_dispatcher_slot asm("_ZZN3c1010Dispatcher9singletonEvE1s");
void* fake_dispatcher_slot = &fake_dispatcher;

namespace proftrace {
namespace {

Pid Self() { return Pid{static_cast<uint32_t>(getpid())}; }

const SiteInfo* FindSite(const ProbePlan& plan, std::string_view name) {
  for (const SiteInfo& site : plan.sites) {
    if (site.label.name == name) return &site;
  }
  return nullptr;
}

TEST(ProbePlanTest, NamesOperatorsByTheLiveDispatcher) {
  const auto plan = BuildProbePlan(Self(), PlanOptions{});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->operators.size(), 3u);
  EXPECT_EQ(plan->operator_count, 2u);
  const SiteInfo* add = FindSite(*plan, "aten::add");
  ASSERT_NE(add, nullptr);
  EXPECT_EQ(add->label.overload_name, "Tensor");
  EXPECT_EQ(add->label.kind, SpanKind::kOperator);
  EXPECT_NE(add->exit_rule, ExitRule::kNone);
  EXPECT_NE(FindSite(*plan, "aten::unlisted"), nullptr)
      << "a name for an operator that is not listed";
  EXPECT_EQ(FindSite(*plan, "aten::size"), nullptr) << "torch makes no row for it";
  EXPECT_EQ(ReadOperators(Self(), *plan).size(), 3u);
}

int CountMemoryPoints(const ProbePlan& plan) {
  int count = 0;
  for (const ModulePlan& module : plan.modules) {
    for (const ProbePoint& point : module.points) {
      const unsigned role = point.cookie >> 16 & 0xff;
      const bool is_memory =
          role >= abi::PT_ROLE_ALLOCATION && role <= abi::PT_ROLE_DEVICE_OUT_OF_MEMORY;
      if (is_memory) EXPECT_EQ(static_cast<uint16_t>(point.cookie), plan.memory_site);
      count += is_memory ? 1 : 0;
    }
  }
  return count;
}

TEST(ProbePlanTest, MemoryHasProbesOnlyWhenItIsAskedFor) {
  const auto without = BuildProbePlan(Self(), PlanOptions{});
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ(CountMemoryPoints(*without), 0);
  EXPECT_FALSE(without->has_memory_probes);
  EXPECT_EQ(without->memory_site, 0);
  PlanOptions options;
  options.profile_memory = true;
  const auto plan = BuildProbePlan(Self(), options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(CountMemoryPoints(*plan), 2);
  EXPECT_TRUE(plan->has_memory_probes);
  EXPECT_NE(plan->memory_site, 0);
  EXPECT_EQ(plan->operator_count, without->operator_count);
  bool says_what_is_missing = false;
  for (const PlanGap& gap : plan->gaps) says_what_is_missing |= gap.feature == "device memory";
  EXPECT_TRUE(says_what_is_missing);
}

// This process has no Dispatcher: nothing is known of how its operators are called.
TEST(ProbePlanTest, InputsThatCannotBeReadLeaveTheProbesAsTheyAre) {
  const auto without = BuildProbePlan(Self(), PlanOptions{});
  PlanOptions options;
  options.record_shapes = true;
  const auto plan = BuildProbePlan(Self(), options);
  ASSERT_TRUE(without.ok() && plan.ok());
  EXPECT_FALSE(plan->has_input_probes);
  EXPECT_TRUE(plan->signatures.empty());
  EXPECT_EQ(plan->gaps.size(), without->gaps.size() + 1);
  ASSERT_EQ(plan->modules.size(), without->modules.size());
  for (size_t i = 0; i < plan->modules.size(); ++i) {
    ASSERT_EQ(plan->modules[i].points.size(), without->modules[i].points.size());
    for (size_t k = 0; k < plan->modules[i].points.size(); ++k) {
      EXPECT_EQ(plan->modules[i].points[k].cookie, without->modules[i].points[k].cookie);
      EXPECT_EQ(plan->modules[i].points[k].signature, 0);
    }
  }
}

TEST(ProbePlanTest, PointsAscendAndEachSiteHasOneBeginAndAnEnd) {
  const auto plan = BuildProbePlan(Self(), PlanOptions{});
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::vector<int> begins(plan->sites.size());
  std::vector<int> ends(plan->sites.size());
  int catches = 0;
  for (const ModulePlan& module : plan->modules) {
    ASSERT_NE(module.held, nullptr);
    for (size_t i = 0; i < module.points.size(); ++i) {
      if (i > 0) EXPECT_LT(module.points[i - 1].file_offset, module.points[i].file_offset);
      const uint64_t cookie = module.points[i].cookie;
      const size_t site = cookie & 0xffff;
      const unsigned role = cookie >> 16 & 0xff;
      ASSERT_LT(site, plan->sites.size());
      if (role == abi::PT_ROLE_CATCH) ++catches;
      if (role == abi::PT_ROLE_BEGIN) ++begins[site];
      if (role == abi::PT_ROLE_END) ++ends[site];
    }
  }
  EXPECT_GE(catches, 1) << "libstdc++'s __cxa_begin_catch";
  for (size_t i = 1; i < plan->sites.size(); ++i) {
    EXPECT_EQ(begins[i], 1) << plan->sites[i].symbol;
    EXPECT_GE(ends[i], 1) << plan->sites[i].symbol;
  }
}

// Plans a process twice, the second time by what is known of its files.
void ExpectSamePlanAgain(const PlanOptions& options) {
  const auto first = BuildProbePlan(Self(), options);
  const auto second = BuildProbePlan(Self(), options);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_FALSE(first->from_cache);
  EXPECT_TRUE(second->from_cache);
  ASSERT_EQ(first->modules.size(), second->modules.size());
  for (size_t i = 0; i < first->modules.size(); ++i) {
    ASSERT_EQ(first->modules[i].points.size(), second->modules[i].points.size());
    for (size_t j = 0; j < first->modules[i].points.size(); ++j) {
      EXPECT_EQ(first->modules[i].points[j].file_offset, second->modules[i].points[j].file_offset);
      EXPECT_EQ(first->modules[i].points[j].cookie, second->modules[i].points[j].cookie);
    }
  }
}

class ProbePlanLimitTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/symbols_plan_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    options_.cache_directory = name;
  }
  void TearDown() override { std::filesystem::remove_all(options_.cache_directory); }

  void ExpectTooLong() const {
    const absl::Status status = BuildProbePlan(Self(), options_).status();
    EXPECT_EQ(ExitCodeOf(status), ExitCode::kNoTorch);
    EXPECT_NE(std::string(status.message()).find("too long"), std::string::npos) << status;
  }

  PlanOptions options_;
};

TEST_F(ProbePlanLimitTest, AFileThatTakesTooLongIsNotKept) {
  options_.longest_analysis_ns = -1;
  ExpectTooLong();
  options_.longest_analysis_ns = kLongestAnalysisNs;
  const auto whole = BuildProbePlan(Self(), options_);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_NE(FindSite(*whole, "aten::add"), nullptr);
}

TEST_F(ProbePlanLimitTest, FilesThatWereNotReadAreNamed) {
  options_.longest_reading_ns = -1;
  ExpectTooLong();
  const auto mappings = ReadMaps(Self());
  ASSERT_TRUE(mappings.ok()) << mappings.status();
  const std::vector<MappedFile> files = GroupByFile(*mappings);
  ModuleReader reader(Self(), options_, nullptr);
  EXPECT_TRUE(reader.ReadAll(files).empty());
  ProbePlan plan;
  reader.AddGaps(&plan);
  ASSERT_EQ(plan.gaps.size(), 1u);
  EXPECT_NE(plan.gaps[0].reason.find(FileName(files[0].path)), std::string::npos);
}

// This program's file, mapped once more below where it is loaded.
class MappedAsData {
 public:
  explicit MappedAsData(int protection) {
    const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    constexpr uintptr_t kBelow = 0x10000000;
    address_ = mmap(reinterpret_cast<void*>(kBelow), kBytes, protection,
                    MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd, 0);
    close(fd);
  }
  ~MappedAsData() { Unmap(); }
  MappedAsData(const MappedAsData&) = delete;
  MappedAsData& operator=(const MappedAsData&) = delete;

  bool is_there() const { return address_ != MAP_FAILED; }
  void Unmap() {
    if (is_there()) munmap(address_, kBytes);
    address_ = MAP_FAILED;
  }

 private:
  static constexpr size_t kBytes = 65536;
  void* address_;
};

TEST(ProbePlanTest, TheCacheGivesTheSamePlan) {
  char name[] = "/tmp/symbols_plan_XXXXXX";
  ASSERT_NE(mkdtemp(name), nullptr);
  ExpectSamePlanAgain(PlanOptions{name});
  std::filesystem::remove_all(name);
}

TEST(ProbePlanTest, FilesThatAreNotKeptOnDiskAreAnalysedOnceARun) {
  PlanOptions options;
  options.analysed = std::make_shared<AnalysedFiles>();
  ExpectSamePlanAgain(options);
}

TEST(ProbePlanTest, AFileThatTheJobReadsTooIsPlannedWhereItIsLoaded) {
  for (const int protection : {PROT_READ, PROT_READ | PROT_EXEC}) {
    MappedAsData data(protection);
    ASSERT_TRUE(data.is_there());
    const auto plan = BuildProbePlan(Self(), PlanOptions{});
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->operators.size(), 3u) << "the Dispatcher lies at the loaded file's address";
    data.Unmap();
    for (const ModulePlan& module : plan->modules) {
      struct stat link {};
      EXPECT_EQ(lstat(module.mapped_path.c_str(), &link), 0) << module.mapped_path;
      ASSERT_NE(module.held, nullptr);
      EXPECT_EQ(StateOfFile(module.mapped_path), module.held->state());
    }
  }
}

TEST(ProbePlanTest, AMappingThatIsGoneIsExchangedForAnother) {
  const auto plan = BuildProbePlan(Self(), PlanOptions{});
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_FALSE(plan->modules.empty());
  ModulePlan module = plan->modules[0];
  module.mapped_path = "/proc/self/map_files/1000-2000";
  ASSERT_TRUE(RenewPath(Self(), &module));
  EXPECT_EQ(module.mapped_path, plan->modules[0].mapped_path);
  module.load_bias += 4096;
  EXPECT_FALSE(RenewPath(Self(), &module)) << "it lies elsewhere: what was planned does not fit";
  module = plan->modules[0];
  module.file.inode += 1;
  EXPECT_FALSE(RenewPath(Self(), &module));
}

TEST(ProbePlanTest, APyTorchThatStillRegistersOperatorsIsTold) {
  auto plan = BuildProbePlan(Self(), PlanOptions{});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->unlisted_operators, 1u);
  EXPECT_FALSE(IsRegistering(*plan));
  plan->operator_count = 3000;
  EXPECT_FALSE(IsRegistering(*plan));
  plan->unlisted_operators = 1000;
  EXPECT_TRUE(IsRegistering(*plan));
  plan->unlisted_operators = 0;
  plan->dispatcher_slot = 0;
  EXPECT_TRUE(IsRegistering(*plan));
}

TEST(ProbePlanTest, SaysWhatIsMissing) {
  const auto plan = BuildProbePlan(Self(), PlanOptions{});
  ASSERT_TRUE(plan.ok());
  const auto has_gap = [&](std::string_view part) {
    for (const PlanGap& gap : plan->gaps) {
      if (gap.feature.find(part) != std::string::npos) return true;
    }
    return false;
  };
  EXPECT_TRUE(has_gap("boxed"));
  EXPECT_TRUE(has_gap("autograd engine"));
}

TEST(ProbePlanTest, NoSuchProcess) {
  const auto plan = BuildProbePlan(Pid{0x7ffffffe}, PlanOptions{});
  EXPECT_EQ(ExitCodeOf(plan.status()), ExitCode::kNoTarget);
}

TEST(ProbePlanTest, AProcessWithoutTorchIsNamed) {
  const pid_t child = fork();
  if (child == 0) {
    execl("/bin/sleep", "sleep", "100", nullptr);
    _exit(1);
  }
  ASSERT_GT(child, 0);
  const Pid pid{static_cast<uint32_t>(child)};
  // Before the exec the child is a copy of this program, during it it has no program at all.
  absl::Status status;
  for (int i = 0; i < 100000 && ExitCodeOf(status) != ExitCode::kNoTorch; ++i) {
    status = BuildProbePlan(pid, PlanOptions{}).status();
  }
  kill(child, SIGKILL);
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kNoTorch);
  EXPECT_NE(std::string(status.message()).find("sleep"), std::string::npos) << status;
  // A zombie has no program any more.
  siginfo_t info;
  waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  EXPECT_EQ(ExitCodeOf(BuildProbePlan(pid, PlanOptions{}).status()), ExitCode::kNoTarget);
  waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace proftrace
