// Where CPython's garbage collector is: in a made-up interpreter, and in this machine's.
#include "symbols/torch/garbage_collector.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <vector>

#include "symbols/elf/elf_file.h"
#include "symbols/torch/module_analysis.h"

namespace proftrace {
namespace {

std::unique_ptr<ElfFile> Open(const char* path) {
  auto file = ElfFile::Open(UniqueFd(open(path, O_RDONLY | O_CLOEXEC)));
  return file.ok() ? *std::move(file) : nullptr;
}

std::vector<ProbedFunction> CollectorsIn(ElfFile* file) {
  const ModuleFacts facts = AnalyzeModule(file);
  std::vector<ProbedFunction> found;
  std::copy_if(facts.functions.begin(), facts.functions.end(), std::back_inserter(found),
               [](const ProbedFunction& f) { return f.role == FunctionRole::kCollector; });
  return found;
}

TEST(GarbageCollectorTest, IsTheFunctionThatSaysSoWhateverItsName) {
  const auto file = Open(PROFTRACE_COLLECTOR);
  ASSERT_NE(file, nullptr);
  const std::vector<ProbedFunction> found = CollectorsIn(file.get());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found.front().ends.empty());
  void* library = dlopen(PROFTRACE_COLLECTOR, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto address = reinterpret_cast<void* (*)()>(dlsym(library, "CollectorAddress"));
  ASSERT_NE(address, nullptr);
  Dl_info info{};
  const auto* collector = static_cast<const char*>(address());
  ASSERT_NE(dladdr(collector, &info), 0);
  const auto start = static_cast<uint64_t>(collector - static_cast<const char*>(info.dli_fbase));
  const uint64_t offset = file->FileOffset(start).value_or(0);
  EXPECT_GE(found.front().begin, offset);
  EXPECT_LE(found.front().begin, offset + 16);
  dlclose(library);
}

TEST(GarbageCollectorTest, AnInterpreterContributesOnlyWhereItIsAsked) {
  const auto file = Open(PROFTRACE_COLLECTOR);
  ASSERT_NE(file, nullptr);
  EXPECT_FALSE(MayContribute(*file, /*full=*/false, /*has_collector=*/false));
  EXPECT_TRUE(MayContribute(*file, /*full=*/false, /*has_collector=*/true));
}

TEST(GarbageCollectorTest, ThisMachinesInterpreterHasOne) {
  const auto file = Open("/usr/bin/python3");
  if (file == nullptr || !MayContribute(*file, /*full=*/false, /*has_collector=*/true)) {
    GTEST_SKIP() << "its interpreter is in a library";
  }
  const std::vector<ProbedFunction> found = CollectorsIn(file.get());
  ASSERT_FALSE(found.empty());
  for (const ProbedFunction& one : found) EXPECT_NE(one.exit_rule, ExitRule::kNone);
}

}  // namespace
}  // namespace proftrace
