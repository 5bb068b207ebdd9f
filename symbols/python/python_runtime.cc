#include "symbols/python/python_runtime.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "symbols/elf/elf_file.h"
#include "symbols/process/read_budget.h"
#include "symbols/python/python_objects.h"
#include "symbols/python/python_stacks.h"
#include "userspace/base/clock.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

constexpr std::string_view kRuntimeSymbol = "_PyRuntime";
constexpr std::string_view kVersionSymbol = "Py_Version";   // from 3.11 on
constexpr std::string_view kRuntimeSection = ".PyRuntime";  // from 3.11 on

// The most bytes that are read. An interpreter's file and its symbols have 30 MB.
constexpr uint64_t kMostPythonBytes = uint64_t{4} << 30;
constexpr int kTries = 64;  // a few microseconds each
constexpr PythonLimits kChecked{.threads = 64, .frames = 16};
constexpr size_t kInstructionsAtMost = size_t{1} << 24;

std::string_view NameOf(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool IsNamedPython(const MappedFile& file) {
  const std::string_view name = NameOf(file.path);
  return name.starts_with("python") || name.starts_with("libpython");
}

std::string VersionText(uint64_t version) {
  return absl::StrCat(PythonVersionText(static_cast<uint32_t>(version >> 16U)), ".",
                      (version >> 8U) & 0xffU);
}

std::optional<PythonPlace> PlaceIn(Pid pid, const TargetMemory& memory, const MappedFile& mapped) {
  auto opened = OpenMappedFile(pid, mapped);
  if (!opened.ok()) return std::nullopt;
  auto file = ElfFile::Open(std::move(opened->file));
  if (!file.ok()) return std::nullopt;
  const auto bias = LoadBias(**file, mapped);
  if (!bias) return std::nullopt;
  uint64_t runtime = 0;
  uint64_t version_at = 0;
  for (const bool full : {false, true}) {
    if (runtime != 0 || (full && !IsNamedPython(mapped))) break;
    (*file)->ForEachSymbol(full, [&](const ElfSymbol& symbol) {
      if (!symbol.is_defined) return;
      if (symbol.name() == kRuntimeSymbol) runtime = symbol.address;
      if (symbol.name() == kVersionSymbol) version_at = symbol.address;
    });
  }
  if (const ElfSection* section = (*file)->FindSection(kRuntimeSection);
      runtime == 0 && section != nullptr) {
    runtime = section->address;
  }
  if (runtime == 0) return std::nullopt;
  PythonPlace place;
  place.runtime = *bias + runtime;
  place.file = mapped.path;
  place.version = PythonVersionOfName(NameOf(mapped.path), &place.is_free_threaded);
  const auto version = version_at == 0 ? std::nullopt : memory.ReadWord(*bias + version_at);
  if (version) {
    place.version = static_cast<uint32_t>(*version >> 16U) & 0xffffU;
    place.version_text = VersionText(*version & 0xffffffffU);
  }
  return place;
}

// Whether everything that a frame points to looks like a code object.
bool IsCode(const TargetMemory& memory, const PythonLayout& layout, const PythonStackFrame& frame) {
  const auto code = ReadPythonCode(memory, layout, frame.code);
  const auto lines = memory.ReadWord(frame.code + layout.stack.code_lines);
  return code && lines && !code->file.empty() && !code->name.empty() && code->first_line >= 0 &&
         PythonObjects(memory, layout).TypeName(*lines) == "bytes" &&
         (frame.instruction == UINT32_MAX || frame.instruction < kInstructionsAtMost);
}

// Whether all frames of the thread are frames of Python code. On x86-64 the first word at
// pthread_self() is pthread_self() itself, in every C library.
bool IsThread(const TargetMemory& memory, const PythonLayout& layout, const PythonThread& thread) {
  return !thread.frames.empty() && !thread.failed && thread.thread_id != 0 &&
         memory.ReadWord(thread.thread_id) == thread.thread_id &&
         std::all_of(thread.frames.begin(), thread.frames.end(),
                     [&](const PythonStackFrame& f) { return IsCode(memory, layout, f); });
}

absl::StatusOr<PythonLayout> LayoutOf(const TargetMemory& memory, const PythonPlace& place) {
  const auto own = ReadPythonLayout(memory, place.runtime);
  if (!own.ok()) return own.status();
  if (*own) return **own;
  const std::string version = PythonVersionText(place.version);
  if (place.is_free_threaded) {
    return absl::FailedPreconditionError(
        absl::StrCat("this is a free-threaded build of Python ", version,
                     " that does not say how its objects lie (_Py_DebugOffsets): those of 3.14 and "
                     "3.15 are supported"));
  }
  if (place.version == 0) {
    return absl::FailedPreconditionError("which version of Python this is could not be found");
  }
  if (place.version >= kPython313 && place.version <= kPython315) {
    return absl::FailedPreconditionError(absl::StrCat(
        "Python ", version, " does not say how its objects lie (_Py_DebugOffsets), as it should"));
  }
  const auto known = KnownPythonLayout(place.version);
  if (!known) {
    return absl::FailedPreconditionError(
        absl::StrCat("Python ", version, " is not supported: 3.9 to 3.15 are"));
  }
  return *known;
}

// Returns the version in the module sys ("3.9.18"), or "3.9" where sys cannot be read.
std::string OwnVersion(const TargetMemory& memory, const PythonRuntime& runtime) {
  const PythonObjects objects(memory, runtime.layout);
  const std::string version = PythonVersionText(runtime.layout.stack.version);
  const auto variables =
      memory.ReadWord(runtime.main_interpreter + runtime.layout.interpreter_variables);
  const auto value = variables ? objects.DictValue(*variables, "version") : std::nullopt;
  const std::string text = value ? objects.Text(*value, 64).value_or("") : "";
  const std::string number = text.substr(0, text.find(' '));
  return number.starts_with(version + ".") ? number : version;
}

}  // namespace

uint32_t PythonVersionOfName(std::string_view name, bool* is_free_threaded) {
  *is_free_threaded = false;
  if (!ConsumeText(&name, "libpython") && !ConsumeText(&name, "python")) return 0;
  if (!ConsumeText(&name, "3.")) return 0;
  size_t digits = 0;
  while (digits < name.size() && name[digits] >= '0' && name[digits] <= '9') ++digits;
  const auto minor = ParseNumber<uint8_t>(name.substr(0, digits));
  if (!minor) return 0;
  *is_free_threaded = name.substr(digits).starts_with('t');
  return 0x0300U | *minor;
}

PythonPlaces FindPythonPlaces(Pid pid, const TargetMemory& memory,
                              const std::vector<MappedFile>& files, int64_t limit_ns) {
  const int64_t deadline_ns = ThreadCpuNs() + limit_ns;
  PythonPlaces found;
  for (const bool named : {true, false}) {
    for (const MappedFile& file : files) {
      if (IsNamedPython(file) != named) continue;
      if (ThreadCpuNs() > deadline_ns || !ReadBudget::PayAll(0)) {
        ++found.left;
        continue;
      }
      if (auto place = PlaceIn(pid, memory, file)) found.places.push_back(*std::move(place));
    }
    if (!found.places.empty()) break;
  }
  return found;
}

absl::StatusOr<PythonRuntime> ConfirmPython(const TargetMemory& memory, const PythonPlace& place) {
  auto layout = LayoutOf(memory, place);
  if (!layout.ok()) return layout.status();
  layout->stack.interpreters = place.runtime + layout->interpreters_head;
  PythonRuntime runtime;
  runtime.layout = *layout;
  runtime.address = place.runtime;
  runtime.file = place.file;
  runtime.version = place.version_text;
  for (int i = 0; i < kTries; ++i) {
    const PythonThreads threads = ReadPythonThreads(memory, *layout, kChecked);
    runtime.interpreters = threads.interpreters;
    runtime.main_interpreter = threads.main_interpreter;
    const bool is_confirmed =
        runtime.main_interpreter != 0 &&
        std::any_of(threads.threads.begin(), threads.threads.end(),
                    [&](const PythonThread& t) { return IsThread(memory, *layout, t); });
    if (!is_confirmed) continue;
    if (runtime.version.empty()) runtime.version = OwnVersion(memory, runtime);
    if (IsFreeThreaded(*layout)) runtime.version += 't';
    return runtime;
  }
  return absl::FailedPreconditionError(
      absl::StrCat("how Python ", PythonVersionText(layout->stack.version),
                   " keeps its frames was not found again in ", place.file,
                   ": no thread has a stack that reads as one"));
}

absl::StatusOr<PythonRuntime> FindPythonRuntime(Pid pid, const TargetMemory& memory,
                                                const std::vector<MappedFile>& files,
                                                int64_t limit_ns) {
  absl::Status failed = absl::NotFoundError("no file of the process is a Python interpreter");
  ReadBudget budget({.bytes = kMostPythonBytes, .cpu_ns = 2 * limit_ns});
  const ReadBudget::Scope scope(&budget);
  const PythonPlaces found = FindPythonPlaces(pid, memory, files, limit_ns);
  if (found.left > 0) {
    failed = absl::DeadlineExceededError(
        absl::StrCat("looking for Python in the files of the process took too long: ", found.left,
                     " were left"));
  }
  for (const PythonPlace& place : found.places) {
    auto runtime = ConfirmPython(memory, place);
    if (runtime.ok()) return runtime;
    if (absl::IsNotFound(failed)) failed = runtime.status();
  }
  if (budget.is_used_up()) {
    return absl::DeadlineExceededError(
        absl::StrCat("looking for Python in the process was given up: ", budget.Why()));
  }
  return failed;
}

bool IsFreeThreadedPython(Pid pid, const TargetMemory& memory,
                          const std::vector<MappedFile>& files) {
  const PythonPlaces found = FindPythonPlaces(pid, memory, files);
  return std::any_of(found.places.begin(), found.places.end(), [&](const PythonPlace& place) {
    return place.is_free_threaded || SaysFreeThreaded(memory, place.runtime);
  });
}

}  // namespace proftrace
