// What workers send is checked, and what they may ask for is only what their target has.
#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "symbols/elf/elf_file.h"
#include "symbols/plan/file_facts.h"
#include "symbols/plan/plan_codec.h"
#include "symbols/plan/target_answers.h"
#include "symbols/plan/target_worker.h"
#include "symbols/process/cache_bytes.h"
#include "symbols/process/entry_questions.h"
#include "symbols/process/mounts.h"
#include "symbols/process/process_maps.h"
#include "symbols/process/process_memory.h"
#include "symbols/process/target_entries.h"
#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

using ::testing::HasSubstr;

Pid OwnPid() { return Pid{static_cast<uint32_t>(getpid())}; }

std::shared_ptr<const HeldFile> OwnFile() {
  return HeldFile::Hold(UniqueFd(open("/proc/self/exe", O_RDONLY | O_CLOEXEC)));
}

ProbePlan SomePlan() {
  ProbePlan plan;
  plan.sites.resize(3);
  plan.sites[1] = {Label{"aten::add", "Tensor"}, "_ZN3add", ExitRule::kConditional};
  plan.sites[2].label.kind = SpanKind::kAutograd;
  plan.sites[2].label.is_async = true;
  ModulePlan module;
  module.name = "libtorch.so";
  module.build_id = "abcd";
  module.file = {1, 2, 1};
  module.held = OwnFile();
  module.mapped_path = "/proc/1/map_files/1-2";
  module.load_bias = 0x7000;
  module.points = {{16, PT_COOKIE(1, abi::PT_ROLE_BEGIN, 0, 0), 1, 1},
                   {32, PT_COOKIE(1, abi::PT_ROLE_END, 0, 0)}};
  module.cost_points = {{20, PT_COOKIE(1, abi::PT_ROLE_COST, 0, 0)}};
  plan.modules.push_back(std::move(module));
  plan.operators = {{4, "aten::add", "Tensor", "aten::add.Tensor() -> ()"}, {5, "aten::b", "", ""}};
  plan.operators_whole = true;
  plan.gaps = {{"rows", "a reason", true, "aten::f"}};
  plan.operator_count = 1;
  plan.python_node_vtable = 7;
  plan.torch_version = "2.11.0";
  plan.python_version = "3.11";
  plan.from_cache = true;
  plan.memory_site = 2;
  plan.has_memory_probes = true;
  plan.torch_data = {8, 9};
  plan.dispatcher_slot = 10;
  plan.autograd.emplace();
  plan.autograd->lowest_key = 36;
  plan.places.resize(1);
  plan.places[0].count = 1;
  plan.places[0].inputs = 1;
  plan.files = {{1, 2, 0}, {1, 3, 0}};
  plan.has_input_probes = true;
  plan.signatures.resize(1);
  plan.signatures[0].count = 2;
  plan.row_inputs.resize(1);
  plan.row_inputs[0].signature = 1;
  plan.operator_signatures = {{4, 1}};
  plan.node_signature = 1;
  return plan;
}

class PlanCodecTest : public testing::Test {
 protected:
  std::optional<ProbePlan> Decode(std::string_view bytes) const {
    return DecodePlan(bytes, [this](const FileState& state) {
      return state == plan_.modules[0].held->state() ? plan_.modules[0].held : nullptr;
    });
  }
  // Whether a plan with that change would be believed.
  bool IsTaken(const std::function<void(ProbePlan*)>& change) const {
    ProbePlan plan = SomePlan();
    change(&plan);
    return Decode(EncodePlan(plan)).has_value();
  }

  ProbePlan plan_ = SomePlan();
};

TEST_F(PlanCodecTest, APlanComesBackAsItWas) {
  const std::string bytes = EncodePlan(plan_);
  const std::optional<ProbePlan> plan = Decode(bytes);
  ASSERT_TRUE(plan);
  EXPECT_EQ(EncodePlan(*plan), bytes);
  EXPECT_EQ(plan->modules[0].held, plan_.modules[0].held);
  EXPECT_EQ(plan->sites[1].label, plan_.sites[1].label);
  EXPECT_EQ(plan->operators[0].schema, plan_.operators[0].schema);
  EXPECT_EQ(plan->files, plan_.files);
  EXPECT_EQ(plan->autograd->lowest_key, 36u);
}

TEST_F(PlanCodecTest, NumbersThatCountNothingAreRefused) {
  EXPECT_TRUE(IsTaken([](ProbePlan*) {}));
  EXPECT_FALSE(IsTaken([](ProbePlan* p) { p->modules[0].points[1].file_offset = 1ull << 60; }));
  EXPECT_FALSE(IsTaken([](ProbePlan* p) { p->modules[0].points[1].file_offset = 16; }));
  EXPECT_FALSE(IsTaken([](ProbePlan* p) { p->modules[0].points[1].cookie |= 3; }));
  EXPECT_FALSE(IsTaken([](ProbePlan* p) { p->modules[0].points[1].place = 2; }));
  EXPECT_FALSE(IsTaken([](ProbePlan* p) { p->modules[0].points[1].signature = 2; }));
  EXPECT_FALSE(IsTaken([](ProbePlan* p) { p->memory_site = 3; }));
  EXPECT_FALSE(IsTaken([](ProbePlan* p) { p->node_signature = 2; }));
  EXPECT_FALSE(IsTaken([](ProbePlan* p) { p->places[0].count = PT_PLACE_OFFSETS + 1; }));
  EXPECT_FALSE(IsTaken([](ProbePlan* p) { p->places[0].otherwise = 2; }));
  EXPECT_FALSE(IsTaken([](ProbePlan* p) { p->places[0].inputs = 2; }));
  EXPECT_FALSE(IsTaken([](ProbePlan* p) { p->row_inputs[0].count = PT_ROW_WORDS + 1; }));
  EXPECT_FALSE(IsTaken([](ProbePlan* p) { p->row_inputs[0].signature = 2; }));
  EXPECT_FALSE(IsTaken([](ProbePlan* p) { p->signatures[0].count = PT_MOST_ARGUMENTS + 1; }));
  EXPECT_FALSE(IsTaken([](ProbePlan* p) { p->operator_signatures[0].signature = 2; }));
  EXPECT_FALSE(IsTaken([](ProbePlan* p) { std::swap(p->operators[0], p->operators[1]); }));
  // Another file than those that were opened for the worker.
  EXPECT_FALSE(IsTaken([](ProbePlan* p) {
    p->modules[0].held = HeldFile::Hold(UniqueFd(open("/etc/passwd", O_RDONLY | O_CLOEXEC)));
  }));
}

TEST_F(PlanCodecTest, DamagedBytesAreNoPlanOrASoundOne) {
  const std::string good = EncodePlan(plan_);
  for (size_t i = 0; i < good.size(); ++i) EXPECT_FALSE(Decode(good.substr(0, i))) << i;
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    std::string bad = good;
    for (unsigned n = 0; n <= random() % 4; ++n) {
      bad[random() % bad.size()] = static_cast<char>(random());
    }
    const std::optional<ProbePlan> plan = Decode(bad);
    if (!plan) continue;
    for (const ModulePlan& module : plan->modules) {
      for (const ProbePoint& point : module.points) {
        ASSERT_LT(SiteOf(point), plan->sites.size());
        ASSERT_LT(point.file_offset, static_cast<uint64_t>(module.held->state().bytes));
      }
    }
  }
}

class TargetAnswersTest : public testing::Test {
 protected:
  int Ask(EntryQuestion kind, const std::string& path) {
    answer_ = answers_.Answer(static_cast<char>(kind) + path);
    uint32_t error = 0;
    std::memcpy(&error, answer_.bytes.data(), sizeof(error));
    return static_cast<int>(error);
  }
  int AskForFile(EntryQuestion kind, Pid pid, const std::string& path, uint64_t inode) {
    CacheWriter words;
    words.Number(Raw(pid));
    words.Number(uint64_t{0});
    words.Number(inode);
    words.Text(path);
    return Ask(kind, words.Take());
  }
  std::string Own(const std::string& entry) const {
    return "/proc/" + std::to_string(getpid()) + "/" + entry;
  }

  TargetAnswers answers_{OwnPid(), nullptr};
  WorkerAnswer answer_;
};

TEST_F(TargetAnswersTest, EntriesOfTheTargetAreOpenedForReadingAlone) {
  EXPECT_EQ(Ask(EntryQuestion::kOpen, Own("maps")), 0);
  EXPECT_TRUE(answer_.fd.valid());
  EXPECT_EQ(Ask(EntryQuestion::kOpen, Own("mem")), 0);
  EXPECT_EQ(fcntl(answer_.fd.get(), F_GETFL) & O_ACCMODE, O_RDONLY);
  EXPECT_EQ(Ask(EntryQuestion::kLink, Own("root")), 0);
  EXPECT_EQ(answer_.bytes.substr(4), "/");
  EXPECT_EQ(Ask(EntryQuestion::kOpen, Own("task/" + std::to_string(gettid()) + "/status")), 0);
  EXPECT_EQ(Ask(EntryQuestion::kStat, Own("map_files/1-2")), EREMOTE);
}

TEST_F(TargetAnswersTest, NothingElseIs) {
  const std::string parent = "/proc/" + std::to_string(getppid()) + "/";
  for (const std::string& path :
       {parent + "maps", parent + "mem", std::string("/proc/1/maps"),
        std::string("/proc/self/maps"), std::string("/etc/shadow"), Own("root"), Own("cwd"),
        Own("root/etc/shadow"), Own("../1/maps"), Own("fd/0"), Own("task/1/mem"),
        parent + "task/1/status", std::string("/proc/1/task/1/comm"), Own("map_files/../maps"),
        Own("ns/mnt"), Own("net/tcp"), std::string()}) {
    EXPECT_EQ(Ask(EntryQuestion::kOpen, path), EACCES) << path;
    EXPECT_FALSE(answer_.fd.valid()) << path;
  }
  EXPECT_EQ(Ask(EntryQuestion::kStat, "/etc/shadow"), EACCES);
  EXPECT_EQ(Ask(EntryQuestion::kLink, parent + "cwd"), EACCES);
  for (const EntryQuestion kind : {EntryQuestion::kBelowRoot, EntryQuestion::kMappedFile}) {
    EXPECT_NE(AskForFile(kind, OwnPid(), "/etc/shadow", 0), 0);
    EXPECT_NE(AskForFile(kind, OwnPid(), "/etc/shadow", 7), 0);
    EXPECT_NE(AskForFile(kind, OwnPid(), "", 0), 0);
    EXPECT_NE(AskForFile(kind, Pid{1}, "/etc/passwd", 0), 0);
  }
  EXPECT_NE(Ask(EntryQuestion::kRead, "of no file"), 0);
  EXPECT_EQ(Ask(static_cast<EntryQuestion>('?'), "/"), EPROTO);
}

TEST_F(TargetAnswersTest, AFileIsOpenedByItsNameWhereTheTargetHasMappedIt) {
  Dl_info info{};
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&setenv), &info), 0);
  char* path = realpath(info.dli_fname, nullptr);
  EXPECT_EQ(AskForFile(EntryQuestion::kBelowRoot, OwnPid(), path, 0), 0);
  EXPECT_TRUE(answer_.fd.valid());
  free(path);
}

// All that is read of this process here is read by a worker.
TEST(ReadInWorkerTest, ReadsMapsMemoryAndFilesOfTheTarget) {
  const std::string text = "in this process";
  const Pid pid = OwnPid();  // in the worker getpid() is another one
  const auto found = ReadInWorker(pid, 20, [&]() -> absl::StatusOr<std::string> {
    std::string copy(text.size(), '\0');
    if (!ProcessMemory(pid).Read(reinterpret_cast<uint64_t>(text.data()), copy.data(),
                                 copy.size())) {
      return "no memory";
    }
    char byte = 0;
    if (ProcessMemory(pid).Read(8, &byte, 1)) return "there is nothing at 8";
    const auto mappings = ReadMaps(pid);
    if (!mappings.ok()) return mappings.status();
    for (const MappedFile& file : GroupByFile(*mappings)) {
      auto opened = OpenMappedFile(pid, file);
      if (!opened.ok()) return opened.status();
      if (!ElfFile::Open(std::move(opened->file)).ok()) return "no ELF file: " + file.path;
    }
    return copy;
  });
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, text);
}

// A file that brings its worker down costs what it contributes.
TEST(KeptFactsTest, AFileWhoseWorkerIsStoppedIsNamed) {
  std::atomic<bool> stop = true;
  PlanOptions options;
  options.stop = &stop;
  KeptFacts facts(options);
  const std::string sent = facts.Find(OwnFile(), "");
  EXPECT_THAT(sent, HasSubstr("the process that analyses it"));
}

TEST(KeptFactsTest, FilesThatAreAnalysedTogetherHaveTheFactsOfEachAlone) {
  const auto copy_of = [](const HeldFile& file) {
    const auto bytes = static_cast<size_t>(file.state().bytes);
    std::string content(bytes, '\0');
    EXPECT_EQ(file.ReadAt(0, content.data(), bytes), bytes);
    UniqueFd fd(memfd_create("copy", MFD_CLOEXEC));
    EXPECT_EQ(write(fd.get(), content.data(), bytes), static_cast<ssize_t>(bytes));
    return HeldFile::Hold(std::move(fd));
  };
  std::vector<FactsWanted> files;
  for (int i = 0; i < 3; ++i) files.push_back({copy_of(*OwnFile()), std::to_string(i)});
  files.push_back(files.front());  // asked for twice
  PlanOptions options;
  options.uses_known_plans = false;
  KeptFacts together(options);
  together.Prepare(files);
  for (const FactsWanted& file : files) {
    KeptFacts alone(options);
    EXPECT_EQ(together.Find(file.file, file.build_id), alone.Find(file.file, file.build_id));
  }
}

TEST(KeptFactsTest, ADamagedQuestionAsksForFewerFiles) {
  FileState state;
  state.inode = 7;
  std::string one(reinterpret_cast<const char*>(&state), sizeof(state));
  one += std::string(
      "\x02\x00"
      "ab",
      4);
  const std::string two = one + one;
  EXPECT_EQ(FilesToPrepare(two).size(), 2u);
  EXPECT_EQ(FilesToPrepare(two)[1].second, "ab");
  EXPECT_EQ(FilesToPrepare(two)[1].first, state);
  for (size_t bytes = 0; bytes < one.size() - 2; ++bytes) {
    EXPECT_TRUE(FilesToPrepare(std::string_view(one).substr(0, bytes)).empty()) << bytes;
  }
  std::string many;
  for (size_t i = 0; i < 2 * kMostPrepared; ++i) many += one;
  EXPECT_EQ(FilesToPrepare(many).size(), kMostPrepared);
  one[sizeof(state)] = '\xff';  // a build-id that is longer than the question
  EXPECT_EQ(FilesToPrepare(one)[0].second, "ab");
}

// Several processes are planned at the same time, each in a worker. A worker is forked while other
// threads hold the locks of the tables that both use.
TEST(ReadInWorkerTest, AWorkerNeverWaitsForALockOfItsParentsThreads) {
  const absl::StatusOr<std::vector<Mapping>> maps = ReadMaps(OwnPid());
  ASSERT_TRUE(maps.ok());
  const auto file = std::find_if(maps->begin(), maps->end(),
                                 [](const Mapping& mapping) { return mapping.inode != 0; });
  ASSERT_NE(file, maps->end());
  const uint64_t device = file->device;
  std::atomic<bool> is_done = false;
  std::vector<std::jthread> lookers;
  for (int i = 0; i < 3; ++i) {
    lookers.emplace_back([&] {
      while (!is_done) {
        (void)MountOfDevice(OwnPid(), device);
        ForgetMemory(OwnPid());
      }
    });
  }
  int answered = 0;
  for (int i = 0; i < 300; ++i) {
    const absl::StatusOr<std::string> read =
        ReadInWorker(OwnPid(), 1, [device]() -> absl::StatusOr<std::string> {
          (void)MountOfDevice(OwnPid(), device);
          uint64_t word = 0;
          (void)ProcessMemory(OwnPid()).Read(uint64_t{1} << 12, &word, sizeof(word));
          return std::string("read");
        });
    if (!read.ok() || *read != "read") {
      ADD_FAILURE() << read.status() << " at the worker number " << i;
      break;
    }
    ++answered;
  }
  is_done = true;
  EXPECT_EQ(answered, 300);
}

}  // namespace
}  // namespace proftrace
