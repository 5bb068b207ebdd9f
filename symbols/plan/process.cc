#include "symbols/plan/process.h"

#include <absl/strings/str_cat.h>
#include <unistd.h>

#include <algorithm>

#include "symbols/plan/job_identity.h"
#include "symbols/plan/target_worker.h"
#include "symbols/process/cached_memory.h"
#include "symbols/process/process_memory.h"
#include "symbols/process/read_budget.h"
#include "symbols/process/target_entries.h"
#include "symbols/python/python_objects.h"
#include "symbols/python/python_runtime.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

constexpr size_t kMaxCommandLineBytes = size_t{1} << 20;
constexpr size_t kMaxStatusBytes = 16384;
constexpr size_t kMaxVersionFileBytes = 16384;
constexpr size_t kMaxVersionBytes = 64;
// Limits the reading of one process for `proftrace list`, which normally takes some milliseconds.
constexpr uint64_t kMostReadBytes = uint64_t{4} << 30;
constexpr int64_t kLongestReadingNs = 5'000'000'000;
constexpr std::string_view kNul("\0", 1);

std::string ProcPath(Pid pid, const char* name) {
  return absl::StrCat("/proc/", Raw(pid), "/", name);
}

void ReadStatusFile(std::string_view text, ProcessInfo* info) {
  for (std::string_view line : SplitText(text, "\n", /*skip_empty=*/true)) {
    const std::vector<std::string_view> words = SplitText(line, "\t ", /*skip_empty=*/true);
    if (words.size() < 2) continue;
    const auto last = ParseNumber<uint32_t>(words.back());
    if (!last) continue;
    if (words[0] == "PPid:") info->parent = Pid{*last};
    if (words[0] == "NSpid:") {
      info->namespace_pid = Pid{*last};
      for (size_t i = 1; i < words.size(); ++i) {
        info->namespace_pids.push_back(ParseNumber<uint32_t>(words[i]).value_or(0));
      }
    }
    if (words[0] == "Threads:") info->threads = *last;
    if (words[0] == "Uid:") info->user_id = ParseNumber<uint32_t>(words[1]).value_or(0);
  }
}

// Returns the number in "pid:[4026531836]"; 0 for any other text.
uint64_t NamespaceNumber(std::string_view link) {
  if (!ConsumeText(&link, "pid:[") || !link.ends_with(']')) return 0;
  link.remove_suffix(1);
  return ParseNumber<uint64_t>(link).value_or(0);
}

// Returns field 22 of /proc/PID/stat. Counts from the last parenthesis, because the second field,
// the name in parentheses, may hold anything.
uint64_t StartTicks(std::string_view stat) {
  const size_t close = stat.rfind(')');
  if (close == std::string_view::npos) return 0;
  const std::vector<std::string_view> fields =
      SplitText(stat.substr(close + 1), " ", /*skip_empty=*/true);
  constexpr size_t kIndexAfterName = 19;
  if (fields.size() <= kIndexAfterName) return 0;
  return ParseNumber<uint64_t>(fields[kIndexAfterName]).value_or(0);
}

std::string_view FileName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

bool IsPlainVersion(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view(".+-_").find(c) != std::string_view::npos;
  });
}

// Returns the text between the quotes behind `name = ` or `name: Optional[str] = `.
std::string QuotedValue(std::string_view text, std::string_view name) {
  for (std::string_view line : SplitText(text, "\n", /*skip_empty=*/true)) {
    if (!line.starts_with(name)) continue;
    line.remove_prefix(name.size());
    if (line.empty() || (line[0] != ' ' && line[0] != ':' && line[0] != '=')) continue;
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    line = StripBlanks(line.substr(equals + 1));
    if (line.size() < 2 || (line[0] != '\'' && line[0] != '"')) continue;
    const size_t close = line.find(line[0], 1);
    if (close > kMaxVersionBytes) continue;  // also where no closing quote was found
    const std::string_view value = line.substr(1, close - 1);
    if (IsPlainVersion(value)) return std::string(value);
  }
  return "";
}

}  // namespace

TorchVersion ParseTorchVersion(std::string_view text) {
  return {QuotedValue(text, "__version__"), QuotedValue(text, "cuda")};
}

namespace {

constexpr std::string_view kPackage = "/torch/";

// Whether all files of the package that the process has mapped still lie in the package's folder.
bool IsUnchanged(Pid pid, const std::vector<MappedFile>& files, const std::string& package) {
  return std::all_of(files.begin(), files.end(), [&](const MappedFile& file) {
    return !file.path.starts_with(package) || IsAtItsPath(pid, file);
  });
}

// Returns the versions in the module torch.version that the process has imported.
TorchVersion ReadImportedVersionHere(Pid pid, const std::vector<MappedFile>& files) {
  const ProcessMemory process(pid);
  const auto python = FindPythonRuntime(pid, process, files);
  if (!python.ok()) return {};
  const CachedMemory memory(process);
  const PythonObjects objects(memory, python->layout);
  const auto variables = objects.ModuleVariables(python->main_interpreter, "torch.version");
  const auto text = [&](std::string_view name) {
    const auto value = variables ? objects.DictValue(*variables, name) : std::nullopt;
    const auto found = value ? objects.Text(*value, kMaxVersionBytes) : std::nullopt;
    return found && IsPlainVersion(*found) ? *found : std::string();
  };
  return {text("__version__"), text("cuda")};
}

TorchVersion ReadImportedVersion(Pid pid, const std::vector<MappedFile>& files) {
  if (FindPythonVersion(files).empty()) return {};
  const auto read = ReadInWorker(pid, kLongestReadingNs / 1'000'000'000, [&] {
    const TorchVersion version = ReadImportedVersionHere(pid, files);
    return absl::StatusOr<std::string>(version.torch + " " + version.cuda);
  });
  if (!read.ok()) return {};
  const size_t space = read->find(' ');
  TorchVersion version{read->substr(0, space), read->substr(std::min(read->size(), space + 1))};
  return IsPlainVersion(version.torch) && IsPlainVersion(version.cuda) ? version : TorchVersion();
}

}  // namespace

TorchVersion FindTorchVersion(Pid pid, const std::vector<MappedFile>& files) {
  bool has_package = false;
  for (const MappedFile& file : files) {
    // The innermost folder of that name is the package's, because a folder above it may be a user's
    // with the same name.
    for (size_t folder = file.path.rfind(kPackage); folder != std::string::npos;
         folder = folder == 0 ? std::string::npos : file.path.rfind(kPackage, folder - 1)) {
      has_package = true;
      const std::string package = file.path.substr(0, folder) + std::string(kPackage);
      TorchVersion version = ParseTorchVersion(
          ReadSmallFileInTargetRoot(pid, package + "version.py", kMaxVersionFileBytes));
      if (version.torch.empty()) continue;
      if (!IsUnchanged(pid, files, package)) return ReadImportedVersion(pid, files);
      return version;
    }
  }
  return has_package ? ReadImportedVersion(pid, files) : TorchVersion();
}

std::string FindPythonVersion(const std::vector<MappedFile>& files) {
  std::string found;
  for (const MappedFile& file : files) {
    std::string_view name = FileName(file.path);
    const bool is_library = ConsumeText(&name, "libpython");
    if (!is_library && !ConsumeText(&name, "python")) continue;
    size_t length = 0;
    while (length < name.size() &&
           ((name[length] >= '0' && name[length] <= '9') || name[length] == '.')) {
      ++length;
    }
    const std::vector<std::string_view> parts =
        SplitText(name.substr(0, length), ".", /*skip_empty=*/true);
    if (parts.size() < 2) continue;
    found = std::string(parts[0]) + "." + std::string(parts[1]);
    if (is_library) break;
  }
  return found;
}

namespace {

// Fails where `pid` is a thread. `text`: the content of /proc/PID/status.
absl::Status CheckIsNoThread(Pid pid, std::string_view text) {
  const auto process = ParseNumber<uint32_t>(StatusValue(text, "Tgid"));
  if (!process || *process == Raw(pid)) return absl::OkStatus();
  return Fail(ExitCode::kNoTarget, absl::StrCat(Raw(pid), " is a thread of PID ", *process,
                                                ": give the PID of the process"));
}

}  // namespace

absl::Status CheckIsNoThread(Pid pid) {
  return CheckIsNoThread(pid, ReadSmallFile(ProcPath(pid, "status"), kMaxStatusBytes));
}

absl::StatusOr<ProcessInfo> ReadProcessInfo(Pid pid) {
  ReadBudget budget({.bytes = kMostReadBytes, .cpu_ns = kLongestReadingNs});
  const ReadBudget::Scope scope(&budget);
  const std::string status = ReadSmallFile(ProcPath(pid, "status"), kMaxStatusBytes);
  if (Raw(pid) == 0 || status.empty()) {
    return Fail(ExitCode::kNoTarget, absl::StrCat("there is no process with PID ", Raw(pid)));
  }
  if (absl::Status thread = CheckIsNoThread(pid, status); !thread.ok()) return thread;
  ProcessInfo info;
  info.pid = pid;
  ReadStatusFile(status, &info);
  info.start_ticks = StartTicks(ReadSmallFile(ProcPath(pid, "stat"), kMaxStatusBytes));
  info.comm = ReadSmallFile(ProcPath(pid, "comm"), kMaxStatusBytes);
  if (info.comm.ends_with('\n')) info.comm.pop_back();
  info.exe = ReadEntryLink(ProcPath(pid, "exe"));
  info.pid_namespace = NamespaceNumber(ReadEntryLink(ProcPath(pid, "ns/pid")));
  ReadTimeOffsets(ReadSmallFile(ProcPath(pid, "timens_offsets"), kMaxStatusBytes), &info);
  info.control_group = ControlGroupOf(ReadSmallFile(ProcPath(pid, "cgroup"), kMaxStatusBytes));
  const std::string cmdline = ReadSmallFile(ProcPath(pid, "cmdline"), kMaxCommandLineBytes);
  // Each argument ends with NUL. An empty argument counts, too.
  std::vector<std::string_view> arguments = SplitText(cmdline, kNul, /*skip_empty=*/false);
  if (!arguments.empty() && arguments.back().empty()) arguments.pop_back();
  info.cmdline.assign(arguments.begin(), arguments.end());
  if (const auto mappings = ReadMaps(pid); mappings.ok()) {
    const std::vector<MappedFile> files = GroupByFile(*mappings);
    JobFacts job = ReadJobFacts(pid, files);
    info.rank = job.rank;
    info.world_size = job.world_size;
    info.job = std::move(job.identity);
    info.python_version = FindPythonVersion(files);
    const TorchVersion version = FindTorchVersion(pid, files);
    info.torch_version = version.torch;
    info.cuda_version = version.cuda;
  }
  return info;
}

// A line is "monotonic  -3600  0": whole seconds, and the nanoseconds that are added to them
// (proc(5)).
void ReadTimeOffsets(std::string_view text, ProcessInfo* info) {
  constexpr int64_t kNsPerSecond = 1'000'000'000;
  for (const std::string_view line : SplitText(text, "\n", /*skip_empty=*/true)) {
    const std::vector<std::string_view> words = SplitText(line, " \t", /*skip_empty=*/true);
    if (words.size() != 3) continue;
    const auto seconds = ParseNumber<int64_t>(words[1]);
    const auto rest_ns = ParseNumber<int64_t>(words[2]);
    int64_t offset_ns = 0;
    if (!seconds || !rest_ns || *rest_ns < 0 || *rest_ns >= kNsPerSecond ||
        __builtin_mul_overflow(*seconds, kNsPerSecond, &offset_ns) ||
        __builtin_add_overflow(offset_ns, *rest_ns, &offset_ns)) {
      continue;
    }
    if (words[0] == "monotonic") info->monotonic_offset_ns = offset_ns;
    if (words[0] == "boottime") info->boottime_offset_ns = offset_ns;
  }
}

std::string ControlGroupOf(std::string_view text) {
  std::string found;
  for (const std::string_view line : SplitText(text, "\n", /*skip_empty=*/true)) {
    const size_t names = line.find(':');
    const size_t path = names == std::string_view::npos ? names : line.find(':', names + 1);
    if (path == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(names + 1, path - names - 1);
    const std::string_view group = line.substr(path + 1);
    // On a host with both versions, the processes of version 1's groups are all in the root of the
    // unified hierarchy, which says nothing.
    if (controllers.empty() && group != "/") return std::string(group);
    if ((controllers.empty() || controllers == "memory") && (found.empty() || found == "/")) {
      found = group;
    }
  }
  return found;
}

std::vector<ProcessInfo> ListTorchProcesses() {
  std::vector<uint32_t> pids = ReadNumberedEntries("/proc");
  std::sort(pids.begin(), pids.end());
  std::vector<ProcessInfo> processes;
  for (const uint32_t pid : pids) {
    const auto mappings = ReadMaps(Pid{pid});
    if (!mappings.ok()) continue;
    const std::vector<MappedFile> files = GroupByFile(*mappings);
    const bool has_torch = std::any_of(files.begin(), files.end(), [](const MappedFile& file) {
      return Contains(FileName(file.path), "torch");
    });
    if (!has_torch) continue;
    if (auto info = ReadProcessInfo(Pid{pid}); info.ok()) processes.push_back(*std::move(info));
  }
  return processes;
}

}  // namespace proftrace
