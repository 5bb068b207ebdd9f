// Reads a process with a real torch: its tree of modules, and the names of its files.
// The first argument: a Python that has torch.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <sstream>

#include "symbols/process/process_memory.h"
#include "symbols/python/python_modules.h"
#include "symbols/python/python_paths.h"
#include "tests/support/python_process.h"
#include "tests/support/python_runtime_finder.h"
#include "userspace/model/python_stack.h"

namespace proftrace {
namespace {

std::string python;  // the first argument

// Several models: the address of each, then named_modules(). Then the files of all modules with
// what torch.profiler makes of their names.
constexpr char kScript[] = R"py(
import sys, torch
from torch import nn
class Block(nn.Module):
    def __init__(self, shared):
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.shared = shared
        self.register_module('nothing', None)
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.layers.insert(1, shared)
        self.by_name = nn.ModuleDict({'größe': nn.ReLU(), 'other': nn.Sequential(nn.Tanh(), shared)})
        self.plain_list = [nn.Linear(1, 1)]
class Parent(nn.Module):
    def __init__(self):
        super().__init__()
        shared = nn.Linear(4, 4)
        self.blocks = nn.Sequential(*[Block(shared) for _ in range(3)])
        self.blocks[0].parent = self
        del self.blocks[1].norm
        self.blocks[1].norm = nn.BatchNorm1d(4)
        self.dynamic = type('Dynamic', (nn.Module,), {})()
class Wrapper(nn.Module):  # as DistributedDataParallel
    def __init__(self, module):
        super().__init__()
        for i in range(60):
            setattr(self, f'attribute_{i}', i)
        self.module = module
deep = nn.Identity()
for _ in range(100):
    deep = nn.Sequential(deep)
weighted = nn.Sequential(nn.Linear(3, 3))
if hasattr(nn.utils, 'parametrizations'):
    nn.utils.parametrizations.orthogonal(weighted[0])
models = [nn.Linear(1, 1), nn.Transformer(16, 2, 2, 2, 16), Parent(), Wrapper(Parent()), deep, weighted,
          nn.LSTM(2, 2), nn.Sequential(*[nn.Sequential(*[nn.Linear(1, 1) for _ in range(100)]) for _ in range(100)])]
if sys.version_info < (3, 11) or torch.__version__ >= '2.1':
    models.append(torch.compile(Parent()))
vars(models[1])
for model in models:
    names = list(model.named_modules())
    sys.stdout.buffer.write(f'{id(model)} {len(names)}\n'.encode())
    for path, module in names:
        sys.stdout.buffer.write(f'{id(module)} {type(module).__name__} {path}\n'.encode())
print('end', flush=True)
from torch.profiler.python_tracer import _prefix_regex
prefixes = _prefix_regex()
for file in {m.__file__ for m in list(sys.modules.values()) if getattr(m, '__file__', None)} | {'<string>'}:
    short = next((file[len(p):] for p in prefixes if file.startswith(p)), file)
    sys.stdout.buffer.write(f'{file}\t{short}\n'.encode())
print('end', flush=True)
sys.stdin.read()
)py";

TEST(PythonTorchTest, ModulesAndFilesAreNamedAsTorchDoes) {
  PythonProcess process(python, kScript);
  const std::vector<std::string> names = process.ReadLines("end");
  const std::vector<std::string> files = process.ReadLines("end");
  ASSERT_FALSE(files.empty());
  const auto runtime = FindPythonOf(PidOf(process));
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  const ProcessMemory memory(PidOf(process));
  size_t models = 0;
  for (size_t at = 0; at < names.size(); ++models) {
    uint64_t root = 0;
    size_t count = 0;
    ASSERT_EQ(std::sscanf(names[at].c_str(), "%lu %zu", &root, &count), 2);
    const auto begin = std::chrono::steady_clock::now();
    const PythonModuleTree tree = ReadPythonModules(memory, runtime->layout, root, {});
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
    EXPECT_TRUE(tree.is_whole);
    ASSERT_EQ(tree.modules.size(), count);
    for (size_t i = 0; i < count; ++i) {
      const PythonModuleNode& node = tree.modules[i];
      EXPECT_EQ(std::to_string(node.object) + " " + node.class_name + " " + node.path,
                names[at + 1 + i]);
    }
    std::printf("%s: %zu modules in %.2f ms\n", tree.modules[0].class_name.c_str(), count,
                time.count());
    at += 1 + count;
  }
  EXPECT_GE(models, 8u);
  const auto paths = ReadPythonPaths(PidOf(process), memory, *runtime);
  for (const std::string& line : files) {
    const size_t tab = line.find('\t');
    EXPECT_EQ(WithoutPythonPath(line.substr(0, tab), paths), line.substr(tab + 1)) << line;
  }
  std::printf("%zu files\n", files.size());
}

}  // namespace
}  // namespace proftrace

int main(int argc, char** argv) {
  constexpr int kSkip = 77;
  ::testing::InitGoogleTest(&argc, argv);
  if (argc < 2) return 2;
  proftrace::python = argv[1];
  proftrace::PythonProcess process(proftrace::python, "import torch\nprint('torch', flush=True)");
  if (process.ReadLine() != "torch") {
    std::printf("skipped: %s has no torch\n", argv[1]);
    return kSkip;
  }
  return RUN_ALL_TESTS();
}
