#include "userspace/cli/process_dump.h"

#include <absl/container/flat_hash_map.h>
#include <absl/strings/str_cat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
#include <utility>

#include "symbols/plan/process.h"
#include "symbols/process/cached_memory.h"
#include "symbols/process/process_maps.h"
#include "symbols/process/process_memory.h"
#include "symbols/process/target_entries.h"
#include "symbols/python/python_objects.h"
#include "symbols/python/python_runtime.h"
#include "symbols/python/python_stacks.h"
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/standard_output.h"
#include "userspace/base/text.h"
#include "userspace/cli/dump_bytes.h"
#include "userspace/cli/dump_worker.h"
#include "userspace/inject/standstill.h"
#include "userspace/model/python_lines.h"
#include "userspace/model/python_stack.h"
#include "userspace/model/system_calls.h"

namespace proftrace {
namespace {

// The longest wait for all threads to stop. If a thread has not stopped by then, all threads go on,
// and another try follows, because a thread that waits for a processor may stop in time then. After
// kTries tries the process is read while it goes on.
constexpr int64_t kLongestStopNs = 20'000'000;
constexpr int kTries = 8;
constexpr useconds_t kBetweenTriesUs = 20'000;
constexpr useconds_t kShortSleepUs = 2000;
constexpr size_t kMostStatusBytes = 16384;
constexpr int kLooksAtRunning = 10;
// The most frames that are read. A hundred thousand frames take about ten milliseconds.
constexpr PythonLimits kLimits{.frames_in_all = 200'000};
constexpr size_t kMostNameBytes = 256;
// The size of the GIL's lock, condition and mutex (struct _gil_runtime_state).
constexpr uint64_t kGilBytes = 256;

using CodeWords = absl::flat_hash_map<uint64_t, std::optional<PythonCodeWords>>;

// A system thread at the moment when it was stopped.
struct SystemThread {
  uint32_t tid = 0;
  uint32_t own_tid = 0;    // in the process' own PID namespace; only where nothing was stopped
  uint64_t thread_id = 0;  // pthread_self(); 0 = not known
  std::optional<uint64_t> system_call;
  uint64_t first_argument = 0;
  std::string kernel_function;
  bool sleeps = false;  // certainly asleep: not stopped, and /proc tells its system call
};

// Threads that sleep in the kernel where no signal reaches them, by TID, with the number of times
// that each was scheduled. A thread whose number has not changed has not run.
using Sleepers = std::map<uint32_t, std::string>;

// The data that is read at one moment. Names are found later.
struct Moment {
  PythonThreads python;
  CodeWords codes;
  std::vector<SystemThread> threads;
};

std::string TaskPath(Pid pid, uint32_t tid, const char* name) {
  return absl::StrCat("/proc/", Raw(pid), "/task/", tid, "/", name);
}

std::string FirstLine(const std::string& path) {
  const std::string text = ReadSmallFile(path, kMostStatusBytes);
  return text.substr(0, text.find('\n'));
}

// Returns a name without the line end that the kernel adds. The name may have line ends of its own.
std::string NameIn(const std::string& path) {
  std::string name = ReadSmallFile(path, kMostStatusBytes);
  if (name.ends_with('\n')) name.pop_back();
  return name;
}

std::vector<uint32_t> TidsOf(Pid pid) {
  return ReadNumberedEntries(absl::StrCat("/proc/", Raw(pid), "/task"));
}

std::vector<uint32_t> TidsOf(const Sleepers& sleepers) {
  std::vector<uint32_t> tids;
  for (const auto& one : sleepers) tids.push_back(one.first);
  return tids;
}

// Returns whether the process has ended. Its memory is gone long before the process itself.
bool HasEnded(Pid pid) {
  const auto mappings = ReadMaps(pid);
  return !mappings.ok() || mappings->empty();
}

absl::Status NoPython(Pid pid, const std::string& comm, const absl::Status& status) {
  return Fail(ExitCode::kNoTorch, absl::StrCat("cannot read the Python stacks of PID ", Raw(pid),
                                               " (", comm, "): ", std::string(status.message())));
}

// Fails where the memory cannot be read. The maps may be readable all the same.
absl::Status CheckPermission(Pid pid, const std::string& comm,
                             const std::vector<Mapping>& mappings) {
  for (const Mapping& mapping : mappings) {
    char byte = 0;
    iovec local{&byte, 1};
    iovec remote{reinterpret_cast<void*>(mapping.start), 1};
    if (process_vm_readv(static_cast<pid_t>(Raw(pid)), &local, 1, &remote, 1, 0) == 1) break;
    if (errno != EPERM) continue;
    return Fail(
        ExitCode::kNotPermitted,
        absl::StrCat("may not read the memory of PID ", Raw(pid), " (", comm,
                     "): CAP_SYS_PTRACE is missing; run 'sudo proftrace dump -p ", Raw(pid), "'"));
  }
  return absl::OkStatus();
}

void AddCodes(const TargetMemory& memory, const PythonLayout& layout, Moment* moment) {
  for (const PythonThread& thread : moment->python.threads) {
    for (const PythonStackFrame& frame : thread.frames) {
      const auto [it, is_new] = moment->codes.try_emplace(frame.code);
      if (is_new) it->second = ReadPythonCodeWords(memory, layout, frame.code);
    }
  }
}

// Returns the system call that a stop interrupted: the kernel has neither restarted it yet nor
// ended it with EINTR.
std::optional<uint64_t> InterruptedCall(const user_regs_struct& registers) {
  const auto number = static_cast<int64_t>(registers.orig_rax);
  const auto result = static_cast<int64_t>(registers.rax);
  constexpr int64_t kFirstRestart = 512;  // ERESTARTSYS
  constexpr int64_t kLastRestart = 516;   // ERESTART_RESTARTBLOCK
  if (number < 0) return std::nullopt;
  const bool is_interrupted =
      result == -EINTR || (result <= -kFirstRestart && result >= -kLastRestart);
  return is_interrupted ? std::optional<uint64_t>(number) : std::nullopt;
}

// Returns the number of the original call. A call with a time-out that was interrupted before has
// the number of restart_syscall.
uint64_t OwnCall(uint64_t number, const std::string& kernel_function) {
  if (number != SYS_restart_syscall) return number;
  return RestartedCall(SystemAbi::kX86_64, kernel_function).value_or(number);
}

void TakeRegisters(const user_regs_struct& registers, SystemThread* thread) {
  thread->thread_id = registers.fs_base;
  thread->system_call = InterruptedCall(registers);
  if (!thread->system_call) return;
  thread->system_call = OwnCall(*thread->system_call, thread->kernel_function);
  thread->first_argument = registers.rdi;
}

// Returns whether a signal had stopped the process before this program did anything to it.
bool IsStopped(Pid pid) {
  const std::string status = ReadSmallFile(TaskPath(pid, Raw(pid), "status"), kMostStatusBytes);
  return StatusValue(status, "State").starts_with('T');
}

Sleepers FindSleepers(Pid pid, const std::vector<uint32_t>& tids) {
  Sleepers sleepers;
  for (const uint32_t tid : tids) {
    const std::string status = ReadSmallFile(TaskPath(pid, tid, "status"), kMostStatusBytes);
    if (!StatusValue(status, "State").starts_with('D')) continue;
    sleepers[tid] = absl::StrCat(std::string(StatusValue(status, "voluntary_ctxt_switches")), "+",
                                 std::string(StatusValue(status, "nonvoluntary_ctxt_switches")));
  }
  return sleepers;
}

// Returns the threads that sleep in this way for longer than reading a page of a file takes.
Sleepers FindLongSleepers(Pid pid) {
  Sleepers sleepers = FindSleepers(pid, TidsOf(pid));
  if (sleepers.empty()) return sleepers;
  usleep(kShortSleepUs);
  const Sleepers still = FindSleepers(pid, TidsOf(sleepers));
  std::erase_if(sleepers, [&still](const auto& one) {
    const auto found = still.find(one.first);
    return found == still.end() || found->second != one.second;
  });
  return sleepers;
}

// Takes the call's number and first argument from /proc/PID/task/TID/syscall.
void TakeCallOf(Pid pid, SystemThread* thread) {
  const std::string text = FirstLine(TaskPath(pid, thread->tid, "syscall"));
  const std::vector<std::string_view> words = SplitText(text, " ", /*skip_empty=*/true);
  if (words.size() < 2 || !words[1].starts_with("0x")) return;
  thread->sleeps = true;  // for a running thread the file has only one word
  const auto number = ParseNumber<uint64_t>(words[0]);
  if (number) thread->system_call = OwnCall(*number, thread->kernel_function);
  thread->first_argument = ParseNumber<uint64_t>(words[1].substr(2), 16).value_or(0);
}

// Returns a thread that is not stopped, as /proc describes it.
SystemThread DescribedThread(Pid pid, uint32_t tid) {
  SystemThread thread;
  thread.tid = tid;
  const std::string status = ReadSmallFile(TaskPath(pid, tid, "status"), kMostStatusBytes);
  const std::vector<std::string_view> ids =
      SplitText(StatusValue(status, "NSpid"), "\t ", /*skip_empty=*/true);
  if (!ids.empty()) thread.own_tid = ParseNumber<uint32_t>(ids.back()).value_or(0);
  thread.kernel_function = FirstLine(TaskPath(pid, tid, "wchan"));
  TakeCallOf(pid, &thread);
  return thread;
}

absl::Status ReadStopped(Pid pid, const PythonLayout& layout, RemoteStop* stopped, Moment* moment,
                         int64_t* stopped_ns) {
  absl::flat_hash_map<uint32_t, std::string> kernel_functions;
  for (const uint32_t tid : TidsOf(pid)) {
    kernel_functions[tid] = FirstLine(TaskPath(pid, tid, "wchan"));
  }
  const Sleepers sleepers = FindLongSleepers(pid);
  const std::vector<uint32_t> asleep = TidsOf(sleepers);
  const ProcessMemory memory(pid);
  const CachedMemory cached(memory);
  const std::set<int> except(asleep.begin(), asleep.end());
  int64_t begin_ns = MonotonicNs();
  absl::Status status = stopped->StopAll(begin_ns + kLongestStopNs, except);
  for (int i = 1; i < kTries && absl::IsUnavailable(status); ++i) {
    *stopped_ns = kLongestStopNs;
    usleep(kBetweenTriesUs);
    begin_ns = MonotonicNs();
    status = stopped->StopAll(begin_ns + kLongestStopNs, except);
  }
  if (!status.ok()) return status;
  moment->python = ReadPythonThreads(cached, layout, kLimits);
  AddCodes(cached, layout, moment);
  for (const StoppedThread& one : stopped->threads()) {
    if (one.is_gone) continue;
    SystemThread thread;
    thread.tid = static_cast<uint32_t>(one.tid);
    thread.kernel_function = kernel_functions[thread.tid];
    TakeRegisters(one.registers, &thread);
    moment->threads.push_back(std::move(thread));
  }
  const Sleepers still = FindSleepers(pid, asleep);
  stopped->Release();
  *stopped_ns = std::max(*stopped_ns, MonotonicNs() - begin_ns);
  if (still != sleepers) return absl::UnavailableError("a thread that slept woke up meanwhile");
  for (const uint32_t tid : asleep) moment->threads.push_back(DescribedThread(pid, tid));
  return absl::OkStatus();
}

// Reads the stacks while the process goes on: again and again until two readings are equal. Stacks
// of threads whose readings never agree are marked as failed.
void ReadRunning(Pid pid, const PythonLayout& layout, Moment* moment) {
  const ProcessMemory memory(pid);
  absl::flat_hash_map<uint64_t, std::vector<PythonStackFrame>> last;
  for (int i = 0; i < kLooksAtRunning; ++i) {
    moment->python = ReadPythonThreads(memory, layout, kLimits);
    bool is_same = true;
    for (PythonThread& thread : moment->python.threads) {
      const auto [it, is_new] = last.try_emplace(thread.state);
      const bool is_unchanged = !is_new && it->second == thread.frames;
      it->second = thread.frames;
      thread.failed = thread.failed || !is_unchanged;
      is_same = is_same && is_unchanged;
    }
    if (is_same) break;
  }
  AddCodes(memory, layout, moment);
  for (const uint32_t tid : TidsOf(pid)) {
    moment->threads.push_back(DescribedThread(pid, tid));
  }
}

// Returns whether the call's first argument is the descriptor of the file that it works on.
bool BeginsWithFile(uint64_t number) {
  const SystemCallInfo* info = FindSystemCall(SystemAbi::kX86_64, number);
  return info != nullptr && info->places.fd == 1;
}

std::string DescriptorName(Pid pid, uint64_t descriptor) {
  return ReadEntryLink(absl::StrCat("/proc/", Raw(pid), "/fd/", static_cast<uint32_t>(descriptor)));
}

// Makes a dump from the data of a moment, while the process goes on.
class DumpMaker {
 public:
  DumpMaker(Pid pid, const PythonRuntime& runtime, const Moment& moment)
      : pid_(pid), runtime_(runtime), moment_(moment), memory_(pid) {}

  void Make(ProcessDump* dump) {
    dump->is_whole = moment_.python.is_whole;
    dump->interpreters = moment_.python.interpreters;
    ReadThreadNames();
    std::vector<bool> is_shown(moment_.python.threads.size());
    for (const SystemThread& system : moment_.threads) {
      dump->threads.push_back(Thread(system, &is_shown));
    }
    for (size_t i = 0; i < is_shown.size(); ++i) {
      if (is_shown[i] || moment_.python.threads[i].thread_id == 0) continue;
      DumpedThread thread;
      thread.stacks.push_back(Stack(moment_.python.threads[i], SystemThread()));
      dump->threads.push_back(std::move(thread));
    }
    const uint32_t first = Raw(pid_);
    std::sort(dump->threads.begin(), dump->threads.end(),
              [first](const DumpedThread& a, const DumpedThread& b) {
                return std::pair(a.tid != first, a.tid) < std::pair(b.tid != first, b.tid);
              });
  }

 private:
  // Reads threading._active, which maps each thread's number to its object. The hash of such a
  // number is the number itself.
  void ReadThreadNames() {
    const CachedMemory cached(memory_);
    const PythonObjects objects(cached, runtime_.layout);
    const auto variables = objects.ModuleVariables(runtime_.main_interpreter, "threading");
    const auto active = variables ? objects.DictValue(*variables, "_active") : std::nullopt;
    const auto items = active ? objects.DictItems(*active) : std::nullopt;
    if (!items) return;
    for (const PythonItem& item : *items) {
      const auto name = objects.Attribute(item.value, "_name");
      const auto text = name ? objects.Text(*name, kMostNameBytes) : std::nullopt;
      if (text) thread_names_[item.hash] = *text;
    }
  }

  // Returns the state of a thread. Where no system call is known, the kernel's function tells it.
  // That function was read a moment before: unless the thread certainly sleeps, only a function
  // that no system call reaches tells where the thread was.
  static ThreadState StateOf(const SystemThread& system) {
    const std::string& function = system.kernel_function;
    if (Contains(function, "signal_stop")) return ThreadState::kStopped;
    if (system.system_call) return ThreadState::kWaits;
    const bool is_fault = Contains(function, "fault") || Contains(function, "swap_page") ||
                          (system.sleeps && Contains(function, "folio"));
    if (is_fault) return ThreadState::kInPageFault;
    return system.sleeps && !function.empty() && function != "0" ? ThreadState::kWaits
                                                                 : ThreadState::kRuns;
  }

  DumpedThread Thread(const SystemThread& system, std::vector<bool>* is_shown) {
    DumpedThread thread;
    thread.tid = system.tid;
    thread.comm = NameIn(TaskPath(pid_, system.tid, "comm"));
    thread.kernel_function = system.kernel_function == "0" ? "" : system.kernel_function;
    thread.state = StateOf(system);
    if (system.system_call) {
      thread.system_call = SystemCallName(SystemAbi::kX86_64, *system.system_call);
      if (BeginsWithFile(*system.system_call)) {
        thread.file = DescriptorName(pid_, system.first_argument);
      }
    }
    for (size_t i = 0; i < is_shown->size(); ++i) {
      const PythonThread& python = moment_.python.threads[i];
      const bool is_same = system.thread_id != 0
                               ? python.thread_id == system.thread_id
                               : python.native_id != 0 && python.native_id == system.own_tid;
      if (!is_same) continue;
      (*is_shown)[i] = true;
      if (!python.frames.empty() || python.failed) thread.stacks.push_back(Stack(python, system));
    }
    return thread;
  }

  DumpedStack Stack(const PythonThread& python, const SystemThread& system) {
    DumpedStack stack;
    stack.interpreter = python.interpreter;
    stack.has_gil = python.has_gil;
    stack.waits_for_gil = system.system_call == uint64_t{SYS_futex} && python.gil != 0 &&
                          system.first_argument - python.gil < kGilBytes;
    stack.is_cut = python.is_cut;
    stack.failed = python.failed;
    if (const auto name = thread_names_.find(python.thread_id);
        name != thread_names_.end() && python.interpreter == 0) {
      stack.thread_name = name->second;
    }
    for (const PythonStackFrame& frame : python.frames) {
      DumpedFrame dumped = Frame(frame);
      if (!IsHiddenPythonCode(dumped.file, dumped.name)) stack.frames.push_back(std::move(dumped));
    }
    return stack;
  }

  DumpedFrame Frame(const PythonStackFrame& frame) {
    const Code& code = CodeAt(frame.code);
    DumpedFrame dumped;
    if (!code.facts) return dumped;
    dumped.file = code.facts->file;
    dumped.name = code.facts->name;
    dumped.qualified_name = code.facts->qualified_name;
    dumped.first_line = code.facts->first_line;
    dumped.line = code.lines->LineOf(frame.instruction);
    return dumped;
  }

  struct Code {
    std::optional<PythonCodeFacts> facts;
    std::optional<PythonLines> lines;
  };

  // Returns the code object at an address, if it is still the same as at the moment: the memory of
  // a freed one may belong to another object by now.
  const Code& CodeAt(uint64_t address) {
    const auto [it, is_new] = codes_.try_emplace(address);
    Code& code = it->second;
    if (!is_new) return code;
    code.facts = ReadPythonCode(memory_, runtime_.layout, address);
    const auto then = moment_.codes.find(address);
    if (!code.facts || then == moment_.codes.end() ||
        ReadPythonCodeWords(memory_, runtime_.layout, address) != then->second) {
      code.facts.reset();
      return code;
    }
    code.lines.emplace(runtime_.layout.stack.version, code.facts->first_line, code.facts->lines);
    return code;
  }

  const Pid pid_;
  const PythonRuntime& runtime_;
  const Moment& moment_;
  const ProcessMemory memory_;
  absl::flat_hash_map<uint64_t, std::string> thread_names_;
  absl::flat_hash_map<uint64_t, Code> codes_;
};

}  // namespace

namespace {

// Runs in the worker, and reads the process.
absl::Status ReadProcess(const std::vector<Mapping>& mappings, RemoteStop* stop,
                         ProcessDump* dump) {
  const Pid pid = dump->pid;
  const ProcessMemory memory(pid);
  const auto runtime = FindPythonRuntime(pid, memory, GroupByFile(mappings));
  if (!runtime.ok()) {
    if (HasEnded(pid)) {
      return Fail(ExitCode::kNoTarget, absl::StrCat("PID ", Raw(pid), " has ended"));
    }
    return NoPython(pid, dump->comm, runtime.status());
  }
  dump->python_version = runtime->version;
  Moment moment;
  int64_t stopped_ns = 0;
  const absl::Status status = ReadStopped(pid, runtime->layout, stop, &moment, &stopped_ns);
  if (status.ok()) {
    dump->stopped_ns = stopped_ns;
  } else if (absl::IsUnavailable(status)) {
    moment = Moment();
    ReadRunning(pid, runtime->layout, &moment);
    dump->not_stopped = std::string(status.message());
  } else {
    return status;
  }
  DumpMaker(pid, *runtime, moment).Make(dump);
  return absl::OkStatus();
}

}  // namespace

namespace {

// Takes a dump in a worker, where `work` gets it, and returns the result of `work`.
absl::StatusOr<std::string> DumpInWorker(
    Pid pid, const std::function<absl::StatusOr<std::string>(const ProcessDump&)>& work) {
  if (absl::Status status = CheckIsNoThread(pid); !status.ok()) return status;
  const auto mappings = ReadMaps(pid);
  if (!mappings.ok()) return mappings.status();
  ProcessDump dump;
  dump.pid = pid;
  dump.comm = NameIn(absl::StrCat("/proc/", Raw(pid), "/comm"));
  if (mappings->empty()) {
    return Fail(ExitCode::kNoTarget, absl::StrCat("PID ", Raw(pid), " (", dump.comm,
                                                  ") has ended, or is a thread of the kernel"));
  }
  if (absl::Status status = CheckPermission(pid, dump.comm, *mappings); !status.ok()) return status;
  dump.was_stopped = IsStopped(pid);
  if (const auto still = FindStandstill(pid); still.has_value()) dump.standstill = still->sentence;
  return RunDumpWorker(pid, [&](RemoteStop* stop) -> absl::StatusOr<std::string> {
    if (absl::Status status = ReadProcess(*mappings, stop, &dump); !status.ok()) return status;
    return work(dump);
  });
}

}  // namespace

absl::Status DumpProcess(Pid pid, const std::function<void(const ProcessDump&)>& show) {
  return DumpInWorker(pid,
                      [&show](const ProcessDump& dump) -> absl::StatusOr<std::string> {
                        show(dump);
                        absl::Status status = FlushStandardOutput();
                        if (!status.ok()) return status;
                        return "";
                      })
      .status();
}

absl::StatusOr<ProcessDump> TakeDump(Pid pid) {
  const absl::StatusOr<std::string> bytes = DumpInWorker(pid, EncodeDump);
  if (!bytes.ok()) return bytes.status();
  std::optional<ProcessDump> dump = DecodeDump(*bytes);
  if (dump) return *std::move(dump);
  return Fail(ExitCode::kBug, absl::StrCat("what was read of PID ", Raw(pid), " is no dump"));
}

}  // namespace proftrace
