#include "symbols/python/python_runtime.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <map>
#include <set>
#include <sstream>

#include "symbols/process/process_maps.h"
#include "symbols/python/python_stacks.h"
#include "tests/support/python_process.h"
#include "tests/support/python_runtime_finder.h"
#include "userspace/model/python_lines.h"

namespace proftrace {
namespace {

// Blocks in known ways, on several threads; then prints each thread's stack, innermost frame first,
// as sys._current_frames() has it once nothing changes any more, and waits for its end.
constexpr char kBlockedScript[] = R"py(
import sys, threading, time, _thread
SOURCE = '''
import threading, time
def block(wait):
    ready.append(1) or wait()

def function(wait):
    def inner(depth):
        if depth:
            return inner(depth - 1)
        return [
            block(
                wait) for _ in range(1)]
    return inner(3)

class Ünïcode:
    def method(self, wait):
        return (lambda: function(wait)
                )()
    def größe(self, wait):
        yield 1
        yield self.method(wait)
    @staticmethod
    def 模块(wait):
        yield from Ünïcode().größe(wait)

def name_of_the_astral_plane_𐌰𐌱(wait):
    for _ in sorted([1], key=lambda _: list(Ünïcode.模块(wait))):
        pass

async def coroutine(wait):
    async def deeper():
        name_of_the_astral_plane_𐌰𐌱(wait)
    await deeper()

def run_coroutine(wait):
    try:
        coroutine(wait).send(None)
    finally:
        pass

def body(wait):
    class Body:
        value = {k: block(wait) for k in (1,)}

def evaluated(wait):
    exec("def executed(wait):\\n\\n\\n  block(wait)\\nexecuted(wait)", {'wait': wait, 'block': block})

def recursive(wait, depth=200):
    return recursive(wait, depth - 1) if depth else block(wait)
'''
ready = []
names = {'ready': ready}
exec(compile(SOURCE, '/nowhere/Ünïcode/模块 🐍.py', 'exec'), names)
lock = _thread.allocate_lock()
lock.acquire()
waits = [lock.acquire, lambda: time.sleep(3600), threading.Event().wait]
chains = ['function', 'run_coroutine', 'body', 'evaluated', 'recursive']
threads = 0
for name in chains:
    for wait in waits:
        threading.Thread(target=names[name], args=(wait,), daemon=True).start()
        threads += 1

def stacks():
    result = {}
    for ident, frame in sys._current_frames().items():
        if ident == threading.get_ident():
            continue
        lines = []
        while frame is not None:
            code = frame.f_code
            qualified = getattr(code, 'co_qualname', code.co_name)
            lines.append((code.co_filename, code.co_name, qualified, str(frame.f_lineno)))
            frame = frame.f_back
        result[ident] = lines
    return result

def report():
    same, last = 0, None
    while same < 5:
        time.sleep(0.02)
        now = stacks() if len(ready) > threads else None
        same = same + 1 if now is not None and now == last else 0
        last = now
    out = sys.stdout.buffer
    for ident, lines in last.items():
        out.write(f'thread {ident} {len(lines)}\n'.encode())
        for line in lines:
            out.write('\t'.join(line).encode() + b'\n')
    out.write(b'end\n')
    out.flush()
    sys.stdin.read()

threading.Thread(target=report, daemon=True).start()
names['name_of_the_astral_plane_𐌰𐌱'](lock.acquire)
)py";

const std::vector<PythonInterpreter>& Pythons() {
  static const std::vector<PythonInterpreter> pythons = FindPythons();
  return pythons;
}

// The frames as kBlockedScript prints them.
std::vector<std::string> Lines(const TargetMemory& memory, const PythonRuntime& runtime,
                               const PythonThread& thread) {
  std::vector<std::string> lines;
  for (const PythonStackFrame& frame : thread.frames) {
    const auto code = ReadPythonCode(memory, runtime.layout, frame.code);
    if (!code) {
      lines.emplace_back("unreadable");
      continue;
    }
    const auto line =
        PythonLine(runtime.layout.stack.version, code->first_line, code->lines, frame.instruction);
    lines.push_back(code->file + "\t" + code->name + "\t" + code->qualified_name + "\t" +
                    (line ? std::to_string(*line) : "-"));
  }
  return lines;
}

TEST(PythonRuntimeTest, StacksAreThoseThatTheInterpreterSays) {
  ASSERT_FALSE(Pythons().empty()) << "no CPython 3.9 to 3.15 on this machine";
  for (const PythonInterpreter& python : Pythons()) {
    SCOPED_TRACE(python.version + ", " + python.command);
    PythonProcess process(python.command, kBlockedScript);
    std::map<uint64_t, std::vector<std::string>> expected;
    std::vector<std::string>* stack = nullptr;
    for (const std::string& line : process.ReadLines("end")) {
      uint64_t ident = 0;
      if (std::sscanf(line.c_str(), "thread %lu", &ident) == 1) {
        stack = &expected[ident];
      } else {
        ASSERT_NE(stack, nullptr);
        stack->push_back(line);
      }
    }
    EXPECT_EQ(expected.size(), 16u);
    const auto runtime = FindPythonOf(PidOf(process));
    ASSERT_TRUE(runtime.ok()) << runtime.status();
    EXPECT_EQ(runtime->version, python.version);
    EXPECT_EQ(runtime->interpreters, 1u);
    const ProcessMemory memory(PidOf(process));
    const PythonThreads read = ReadPythonThreads(memory, runtime->layout, PythonLimits());
    EXPECT_TRUE(read.is_whole);
    size_t frames = 0;
    const std::vector<uint32_t> task =
        ReadNumberedEntries("/proc/" + std::to_string(Raw(PidOf(process))) + "/task");
    std::set<uint32_t> tids(task.begin(), task.end());
    for (const PythonThread& thread : read.threads) {
      const auto found = expected.find(thread.thread_id);
      if (found == expected.end()) continue;  // the one that printed
      EXPECT_EQ(Lines(memory, *runtime, thread), found->second);
      EXPECT_FALSE(thread.is_cut || thread.failed || thread.has_gil);
      EXPECT_TRUE(tids.contains(thread.native_id));
      tids.erase(thread.native_id);
      frames += thread.frames.size();
      expected.erase(found);
    }
    EXPECT_TRUE(expected.empty());
    EXPECT_EQ(read.threads.size(), 17u);
    std::printf("Python %s: %zu frames\n", python.version.c_str(), frames);
  }
}

// Prints its own number of interpreters.
constexpr char kInterpretersScript[] = R"(
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
kept = [interpreters.create() for _ in range(3)]
print(len(interpreters.list_all()))
print('end', flush=True)
sys.stdin.read()
)";

TEST(PythonRuntimeTest, SubinterpretersAreCounted) {
  for (const PythonInterpreter& python : Pythons()) {
    SCOPED_TRACE(python.version);
    PythonProcess process(python.command, kInterpretersScript);
    EXPECT_EQ(process.ReadLines("end"), std::vector<std::string>{"4"});
    const auto runtime = FindPythonOf(PidOf(process));
    ASSERT_TRUE(runtime.ok()) << runtime.status();
    EXPECT_EQ(runtime->interpreters, 4u);
  }
}

TEST(PythonRuntimeTest, ABusyProcessIsConfirmed) {
  for (const PythonInterpreter& python : Pythons()) {
    SCOPED_TRACE(python.version);
    PythonProcess process(python.command,
                          "def f(n):\n  return n and f(n - 1)\n"
                          "print('end', flush=True)\nwhile True: f(20)\n");
    process.ReadLines("end");
    for (int i = 0; i < 20; ++i) {
      const auto runtime = FindPythonOf(PidOf(process));
      EXPECT_TRUE(runtime.ok()) << runtime.status();
    }
  }
}

TEST(PythonRuntimeTest, FilesForWhichThereIsNoTimeAreSaid) {
  const Pid self{static_cast<uint32_t>(getpid())};
  const auto maps = ReadMaps(self);
  ASSERT_TRUE(maps.ok());
  const std::vector<MappedFile> files = GroupByFile(*maps);
  const ProcessMemory memory(self);
  EXPECT_EQ(FindPythonPlaces(self, memory, files, /*limit_ns=*/-1).left, files.size());
  EXPECT_TRUE(absl::IsDeadlineExceeded(FindPythonRuntime(self, memory, files, -1).status()));
}

TEST(PythonRuntimeTest, AProcessWithoutPythonIsNotFound) {
  const auto runtime = FindPythonOf(Pid{static_cast<uint32_t>(getpid())});
  EXPECT_TRUE(absl::IsNotFound(runtime.status())) << runtime.status();
}

}  // namespace
}  // namespace proftrace
