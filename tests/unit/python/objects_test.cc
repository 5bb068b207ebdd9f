// Objects of real interpreters: attributes and dicts of all kinds, sys.path, trees of modules.
#include "symbols/python/python_objects.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "symbols/plan/process.h"
#include "symbols/plan/process_environment.h"
#include "symbols/process/cached_memory.h"
#include "symbols/python/python_modules.h"
#include "symbols/python/python_paths.h"
#include "tests/support/python_process.h"
#include "tests/support/python_runtime_finder.h"
#include "tests/unit/symbols/fake_memory.h"
#include "userspace/model/python_stack.h"

namespace proftrace {
namespace {

const std::vector<PythonInterpreter>& Pythons() {
  static const std::vector<PythonInterpreter> pythons = FindPythons();
  return pythons;
}

std::vector<std::string> Fields(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream stream(line);
  for (std::string field; std::getline(stream, field, '\t');) fields.push_back(field);
  return fields;
}

// Objects whose attribute `wanted` is the text that is printed ("-" = it has none), each with its
// address, its class' name and those of what that is made from.
constexpr char kObjectsScript[] = R"py(
import sys, collections
class Plain:
    def __init__(self, value):
        self.before = 1
        self.wanted = value
        self.after = 2
class Other(Plain):
    pass
class FromDict(dict):
    pass
class FromText(str):
    pass
class Slots:
    __slots__ = ('wanted',)
class SlotsAndDict(Slots):
    pass
class Größe(Plain):
    def __init__(self, value):
        for i in range(40):
            setattr(self, f'attribute_{i}', i)
        self.wanted = value
kept = []
def show(value, text):
    kept.append(value)
    names = '\t'.join(c.__name__ for c in type(value).__mro__)
    sys.stdout.buffer.write(f'{id(value)}\t{text}\t{names}\n'.encode())
show(Plain('inline'), 'inline')
o = Plain('asked for its dict'); o.__dict__; show(o, 'asked for its dict')
o = Plain('grown'); o.__dict__['more'] = 3; [setattr(o, f'a{i}', i) for i in range(50)]; show(o, 'grown')
o = Plain('x'); o.__dict__ = {1: 2, 'wanted': 'a dict of its own', (): 3}; show(o, 'a dict of its own')
o = Plain('x'); del o.wanted; show(o, '-')
o = Plain('x'); del o.before; o.wanted = 'after a deletion'; show(o, 'after a deletion')
o = Plain('x'); o.__dict__.clear(); show(o, '-')
show(Other('of a derived class'), 'of a derived class')
show(Größe('größer 模块 🐍'), 'größer 模块 🐍')
show(Größe(FromText('from str 模')), 'from str 模')
o = FromDict(a=1); o.wanted = 'beside a dict'; show(o, 'beside a dict')
o = Slots(); o.wanted = 'in a slot'; show(o, '-')
o = SlotsAndDict(); o.wanted = 'in a slot'; o.other = 1; show(o, '-')
def f(): pass
f.wanted = 'of a function'; show(f, 'of a function')
e = ValueError(); e.wanted = 'of an exception'; show(e, 'of an exception')
show(1, '-')
show('text', '-')
kept += [Plain(str(i)) for i in range(1000)]
show(kept[-1], '999')
print('end', flush=True)
sys.stdin.read()
)py";

TEST(PythonObjectsTest, AttributesAreThoseOfTheObjects) {
  ASSERT_FALSE(Pythons().empty()) << "no CPython 3.9 to 3.15 on this machine";
  for (const PythonInterpreter& python : Pythons()) {
    SCOPED_TRACE(python.version);
    PythonProcess process(python.command, kObjectsScript);
    const std::vector<std::string> lines = process.ReadLines("end");
    EXPECT_EQ(lines.size(), 18u);
    const auto runtime = FindPythonOf(PidOf(process));
    ASSERT_TRUE(runtime.ok()) << runtime.status();
    const ProcessMemory memory(PidOf(process));
    const PythonObjects objects(memory, runtime->layout);
    for (const std::string& line : lines) {
      std::vector<std::string> fields = Fields(line);
      const uint64_t object = std::stoull(fields[0]);
      const auto value = objects.Attribute(object, "wanted");
      EXPECT_EQ(value ? objects.Text(*value, 1000).value_or("unreadable") : "-", fields[1]);
      fields.erase(fields.begin(), fields.begin() + 2);
      EXPECT_EQ(objects.ClassNames(object), fields);
      EXPECT_EQ(objects.TypeName(object), fields[0]);
    }
  }
}

// Objects, each with the number that it is ("-" = none, a negative one or one of more than 60
// bits).
constexpr char kNumbersScript[] = R"py(
import sys
kept = []
for value in (0, 1, 7, 256, 4096, 2**30 - 1, 2**30, 2**31 - 1, 2**59 + 3, 2**60 - 1, 2**60, 2**90,
              -1, -7, -2**31, -2**59, -2**70, 1.0, 'text', None, ()):
    kept.append(value)
    known = type(value) is int and 0 <= value < 2**60
    print(id(value), value if known else '-', sep='\t')
print('end', flush=True)
sys.stdin.read()
)py";

TEST(PythonObjectsTest, NumbersAreThoseOfTheObjects) {
  for (const PythonInterpreter& python : Pythons()) {
    SCOPED_TRACE(python.version);
    PythonProcess process(python.command, kNumbersScript);
    const std::vector<std::string> lines = process.ReadLines("end");
    EXPECT_EQ(lines.size(), 21u);
    const auto runtime = FindPythonOf(PidOf(process));
    ASSERT_TRUE(runtime.ok()) << runtime.status();
    const ProcessMemory memory(PidOf(process));
    const PythonObjects objects(memory, runtime->layout);
    for (const std::string& line : lines) {
      const std::vector<std::string> fields = Fields(line);
      const auto number = objects.Number(std::stoull(fields[0]));
      EXPECT_EQ(number ? std::to_string(*number) : "-", fields[1]);
    }
  }
}

// Dicts of str keys, and tuples and lists of str: their items with ":" between key and value.
constexpr char kContainersScript[] = R"py(
import sys, collections
kept = []
def show(value):
    kept.append(value)
    items = [f'{k}:{v}' for k, v in value.items()] if isinstance(value, dict) else value
    sys.stdout.buffer.write('\t'.join([str(id(value)), *items]).encode() + b'\n')
show({})
show({'a': 'b', 'c': 'd'})
show({str(i): str(-i) for i in range(300)})
show({str(i): str(-i) for i in range(70000)})
d = {str(i): str(i) for i in range(20)}
for i in range(0, 20, 3): del d[str(i)]
d['0'] = 'again'
show(d)
d = {'x': 'y', 1: 'z'}; del d[1]; show(d)
show(collections.OrderedDict(a='1', b='2'))
show(collections.defaultdict(list, a='1'))
show(dict.fromkeys(['größe', '模块', '🐍'], 'v'))
show(('a', 'b')); show(()); show(['a', 'b', 'c']); show([]); show([str(i) for i in range(1000)])
print('end', flush=True)
sys.stdin.read()
)py";

TEST(PythonObjectsTest, ItemsAreThoseOfTheContainers) {
  for (const PythonInterpreter& python : Pythons()) {
    SCOPED_TRACE(python.version);
    PythonProcess process(python.command, kContainersScript);
    const std::vector<std::string> lines = process.ReadLines("end");
    EXPECT_EQ(lines.size(), 14u);
    const auto runtime = FindPythonOf(PidOf(process));
    ASSERT_TRUE(runtime.ok()) << runtime.status();
    const ProcessMemory uncached(PidOf(process));
    const CachedMemory memory(uncached);
    const PythonObjects objects(memory, runtime->layout);
    const auto text = [&](uint64_t object) { return objects.Text(object, 100).value_or("?"); };
    for (const std::string& line : lines) {
      std::vector<std::string> fields = Fields(line);
      const uint64_t object = std::stoull(fields[0]);
      fields.erase(fields.begin());
      std::vector<std::string> read;
      if (const auto items = objects.DictItems(object)) {
        for (const PythonItem& item : *items)
          read.push_back(text(item.key) + ":" + text(item.value));
      } else if (const auto values = objects.Items(object)) {
        for (const uint64_t value : *values) read.push_back(text(value));
      }
      EXPECT_EQ(read, fields);
    }
  }
}

// The rule of torch's _prefix_regex(), on a made-up torch: files with what it leaves of their
// names.
constexpr char kPathsScript[] = R"py(
import json, os, site, sys, types
os.chdir('/')
torch = types.ModuleType('torch'); torch.__file__ = '/somewhere/else/torch/__init__.py'
sys.modules['torch'] = torch
sys.path += ['relative/../folder', '/an/added//folder/', '/an/added', '/grö🐍ße']
paths = site.getsitepackages() + sys.path + [site.getuserbase(), site.getusersitepackages(),
        os.path.dirname(os.path.dirname(torch.__file__))]
prefixes = [p + os.sep for p in sorted({os.path.abspath(p) for p in paths}, reverse=True)]
files = [m.__file__ for m in list(sys.modules.values()) if getattr(m, '__file__', None)]
files += [p.rstrip('/') + '/package/module.py' for p in paths]
files += ['/an/added/folder/x.py', '/an/addedx.py', '<string>', '/folder/x.py', 'x.py', '']
for file in files:
    short = next((file[len(p):] for p in prefixes if file.startswith(p)), file)
    sys.stdout.buffer.write(f'{file}\t{short}\n'.encode())
print('end', flush=True)
sys.stdin.read()
)py";

TEST(PythonPathsTest, NamesAreShortenedAsTorchDoes) {
  for (const PythonInterpreter& python : Pythons()) {
    SCOPED_TRACE(python.version);
    PythonProcess process(python.command, kPathsScript);
    const std::vector<std::string> lines = process.ReadLines("end");
    EXPECT_GT(lines.size(), 20u);
    const auto runtime = FindPythonOf(PidOf(process));
    ASSERT_TRUE(runtime.ok()) << runtime.status();
    const auto paths = ReadPythonPaths(PidOf(process), ProcessMemory(PidOf(process)), *runtime);
    for (const std::string& line : lines) {
      const size_t tab = line.find('\t');
      EXPECT_EQ(WithoutPythonPath(line.substr(0, tab), paths), line.substr(tab + 1)) << line;
    }
  }
}

TEST(PythonPathsTest, WhatIsTooLongIsLeftOut) {
  for (const PythonInterpreter& python : Pythons()) {
    SCOPED_TRACE(python.version);
    PythonProcess process(python.command, R"py(
import sys
sys.path += ['/first', '/' + 'a' * 5000] + ['/%05d' % i + 'b' * 4000 for i in range(10000)]
print('end', flush=True)
sys.stdin.read()
)py");
    process.ReadLines("end");
    const auto runtime = FindPythonOf(PidOf(process));
    ASSERT_TRUE(runtime.ok()) << runtime.status();
    const auto paths = ReadPythonPaths(PidOf(process), ProcessMemory(PidOf(process)), *runtime);
    EXPECT_NE(std::find(paths.begin(), paths.end(), "/first/"), paths.end());
    size_t bytes = 0;
    for (const std::string& path : paths) {
      EXPECT_LE(path.size(), 4097u);
      bytes += path.size();
    }
    EXPECT_GT(bytes, size_t{8} << 20);
    EXPECT_LT(bytes, size_t{17} << 20);
  }
}

TEST(PythonPathsTest, AbsolutePaths) {
  EXPECT_EQ(AbsolutePythonPath("", "/job"), "/job");
  EXPECT_EQ(AbsolutePythonPath("a/./b/..", "/job"), "/job/a");
  EXPECT_EQ(AbsolutePythonPath("../../..", "/job"), "/");
  EXPECT_EQ(AbsolutePythonPath("/a//b/", "/job"), "/a/b");
  EXPECT_EQ(AbsolutePythonPath("//a", "/job"), "//a");
  EXPECT_EQ(AbsolutePythonPath("///a", "/job"), "/a");
}

// A Module as torch's, without torch; prints the root's address, then named_modules().
constexpr char kModulesScript[] = R"py(
import sys
class Module:
    def __init__(self, **children):
        super().__setattr__('training', True)
        super().__setattr__('_parameters', {})
        super().__setattr__('_modules', {})
        for name, child in children.items():
            self.add(name, child)
    def add(self, name, child):
        self._modules[name] = child
        return self
    def named_modules(self, memo=None, prefix=''):
        memo = set() if memo is None else memo
        if self not in memo:
            memo.add(self)
            yield prefix, self
            for name, module in self._modules.items():
                if module is not None:
                    yield from module.named_modules(memo, prefix + ('.' if prefix else '') + name)
class Linear(Module): pass
class Größe(Module): pass
shared = Linear()
root = Module(a=shared, b=Größe(inner=shared, own=Linear(), none=None), c=None)
root.add('größe', Module(**{str(i): Linear() for i in range(30)}))
root._modules['b'].add('up', root)
deep = Module()
for i in range(100):
    deep = Module(deep=deep)
root.add('deep', deep)
vars(root._modules['b'])['extra'] = 1
del root._modules['a']
root.add('a', shared)
sys.stdout.buffer.write(f'{id(root)}\n'.encode())
for path, module in root.named_modules():
    sys.stdout.buffer.write(f'{id(module)} {type(module).__name__} {path}\n'.encode())
print('end', flush=True)
sys.stdin.read()
)py";

std::vector<std::string> Lines(const PythonModuleTree& tree) {
  std::vector<std::string> lines;
  for (const PythonModuleNode& node : tree.modules) {
    lines.push_back(std::to_string(node.object) + " " + node.class_name + " " + node.path);
  }
  return lines;
}

TEST(PythonModulesTest, PathsAreThoseOfNamedModules) {
  for (const PythonInterpreter& python : Pythons()) {
    SCOPED_TRACE(python.version);
    PythonProcess process(python.command, kModulesScript);
    std::vector<std::string> lines = process.ReadLines("end");
    ASSERT_EQ(lines.size(), 137u);
    const uint64_t root = std::stoull(lines[0]);
    lines.erase(lines.begin());
    const auto runtime = FindPythonOf(PidOf(process));
    ASSERT_TRUE(runtime.ok()) << runtime.status();
    const ProcessMemory memory(PidOf(process));
    const PythonModuleTree tree = ReadPythonModules(memory, runtime->layout, root, {});
    EXPECT_TRUE(tree.is_whole);
    EXPECT_EQ(Lines(tree), lines);

    const auto cut = [&](const PythonModuleLimits& limits) {
      const PythonModuleTree part = ReadPythonModules(memory, runtime->layout, root, limits);
      EXPECT_FALSE(part.is_whole);
      EXPECT_LT(part.modules.size(), lines.size());
      EXPECT_TRUE(std::equal(part.modules.begin(), part.modules.begin() + 5, tree.modules.begin(),
                             [](const auto& a, const auto& b) { return a.path == b.path; }));
    };
    cut({.modules = 20});
    cut({.depth = 10});
    cut({.path_bytes = 40});
    cut({.bytes = 20000});
    cut({.kept_bytes = 4000});
  }
}

TEST(PythonModulesTest, WhatIsNoModuleHasNoTree) {
  const FakeMemory memory;
  const PythonLayout layout = *KnownPythonLayout(kPython311);
  EXPECT_TRUE(ReadPythonModules(memory, layout, 0, {}).modules.empty());
  EXPECT_TRUE(ReadPythonModules(memory, layout, ~uint64_t{0} - 7, {}).modules.empty());
}

// What setproctitle does: the title takes the place of the arguments and of the environment.
constexpr char kTitleScript[] = R"py(
import ctypes, os, sys
os.environ['RANK'] = '3'
os.environ['WORLD_SIZE'] = '8'
os.environ['LOCAL_RANK'] = '1'
os.environ['TORCHELASTIC_RUN_ID'] = 'run'
del os.environ['HOME']
fields = open('/proc/self/stat').read().rsplit(')', 1)[1].split()
arguments, begin, end = (int(fields[i]) for i in (45, 47, 48))
rest = sys.stdin.readline().rstrip('\n').encode()
ctypes.memset(begin, 0, end - begin)
if rest:  # of a title that is longer than the arguments were
    ctypes.memset(arguments, ord('x'), begin - arguments)
    ctypes.memmove(begin, rest, len(rest))
print('end', flush=True)
sys.stdin.read()
)py";

TEST(ProcessEnvironmentTest, ATitleInItsPlaceIsNotTakenForIt) {
  for (const PythonInterpreter& python : Pythons()) {
    for (const std::string title : {"", "title", "e RANK=5", "RANK=5"}) {
      SCOPED_TRACE(python.version + " " + title);
      PythonProcess process(python.command, kTitleScript);
      process.WriteLine(title);
      process.ReadLines("end");
      const auto info = ReadProcessInfo(PidOf(process));
      ASSERT_TRUE(info.ok()) << info.status();
      EXPECT_EQ(info->rank, 3);
      EXPECT_EQ(info->world_size, 8);
      EXPECT_EQ(info->job.local_rank, 1u);
      EXPECT_EQ(info->job.elastic_run_id, "run");
    }
  }
}

// As launchers do that start ranks by themselves, and scripts that are started by others.
constexpr char kOwnVariablesScript[] = R"py(
import os, sys
os.environ['RANK'] = '3'
os.environ['LOCAL_RANK'] = '1'
os.environ['MASTER_ADDR'] = 'x' * 257
os.environ['TORCHELASTIC_RUN_ID'] = 'run \u00e9'
os.environ.pop('WORLD_SIZE', None)
print('end', flush=True)
sys.stdin.read()
)py";

TEST(ProcessEnvironmentTest, WhatAPythonHasSetItselfCounts) {
  for (const PythonInterpreter& python : Pythons()) {
    SCOPED_TRACE(python.version);
    setenv("WORLD_SIZE", "9", 1);
    setenv("RANK", "1", 1);
    setenv("SLURM_JOB_ID", "77", 1);
    PythonProcess process(python.command, kOwnVariablesScript);
    for (const char* name : {"WORLD_SIZE", "RANK", "SLURM_JOB_ID"}) unsetenv(name);
    process.ReadLines("end");
    const auto info = ReadProcessInfo(PidOf(process));
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(info->rank, 3);
    EXPECT_FALSE(info->world_size) << "it was taken away";
    EXPECT_EQ(info->job.local_rank, 1u);
    EXPECT_EQ(info->job.slurm_job_id, 77u);
    EXPECT_EQ(info->job.master_addr, "") << "too long for a name";
    EXPECT_EQ(info->job.elastic_run_id, "run \xc3\xa9");
    EXPECT_EQ(info->namespace_pids.front(), Raw(info->pid));
    EXPECT_GT(info->pid_namespace, 0u);
  }
}

TEST(ProcessEnvironmentTest, WhatIsNoEnvironmentIsKnown) {
  using Entries = std::vector<std::string_view>;
  const auto split = [](std::string_view text) {
    return SplitEnvironment(text).value_or(Entries{"none"});
  };
  using std::string_view_literals::operator""sv;
  EXPECT_EQ(split("A=1\0B=\0F%%=() { :\n}\0"sv), (Entries{"A=1", "B=", "F%%=() { :\n}"}));
  EXPECT_EQ(split("A=1\0title\0"sv), Entries{"none"});
  EXPECT_EQ(split("the title RANK=2\0A=1\0"sv), Entries{"none"});
  EXPECT_EQ(split("\0\0\0A=1\0"sv), Entries{"none"});
  EXPECT_EQ(split("=1\0"sv), Entries{"none"});
  EXPECT_EQ(split(""), Entries{"none"});
}

}  // namespace
}  // namespace proftrace
