#include "symbols/plan/process_environment.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "symbols/plan/process.h"
#include "symbols/plan/target_worker.h"
#include "symbols/process/cached_memory.h"
#include "symbols/process/process_memory.h"
#include "symbols/python/python_objects.h"
#include "symbols/python/python_runtime.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

constexpr size_t kMostBytes = size_t{4} << 20;
constexpr size_t kMostVariables = 65536;
constexpr size_t kMostNameBytes = 256;
constexpr size_t kMostValueBytes = 256;
constexpr int64_t kLongestReadingS = 5;
constexpr std::string_view kNul("\0", 1);

bool IsVariable(std::string_view entry) {
  const size_t equals = entry.find('=');
  if (equals == 0 || equals == std::string_view::npos) return false;
  const std::string_view name = entry.substr(0, equals);
  return std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

// Adds an entry "NAME=VALUE" where NAME is one of `names`. The first entry of a name counts.
void AddVariable(std::string_view entry, const std::vector<std::string>& names,
                 Environment* environment) {
  const size_t equals = entry.find('=');
  if (equals == std::string_view::npos) return;
  const std::string_view name = entry.substr(0, equals);
  const std::string_view value = entry.substr(equals + 1);
  if (value.size() > kMostValueBytes) return;
  if (std::find(names.begin(), names.end(), name) == names.end()) return;
  environment->emplace(name, value);
}

std::string TextOf(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

// Whether a title that was written over the arguments goes on into the environment: then the byte
// between the two is no longer the NUL at the end of the last argument. The kernel judges by the
// same byte (fs/proc/base.c, get_mm_cmdline).
bool IsTitleInPlace(Pid pid) {
  // Field 50 of /proc/PID/stat, counted from the third one
  constexpr size_t kEnvironmentBegin = 47;
  const std::string stat = ReadSmallFile(absl::StrCat("/proc/", Raw(pid), "/stat"), 4096);
  const size_t close = stat.rfind(')');
  if (close == std::string::npos) return false;
  const std::vector<std::string_view> fields =
      SplitText(std::string_view(stat).substr(close + 1), " \n", /*skip_empty=*/true);
  if (fields.size() <= kEnvironmentBegin) return false;
  const uint64_t begin = ParseNumber<uint64_t>(fields[kEnvironmentBegin]).value_or(0);
  uint8_t before = 0;
  return begin > 0 && ProcessMemory(pid).Read(begin - 1, &before, sizeof(before)) && before != 0;
}

// Returns the variables of `names` in os.environ, as entries that end with NUL. Fails with NotFound
// where os.environ cannot be read, or is of another class than usual.
absl::StatusOr<std::string> ReadPythonsEntries(Pid pid, const std::vector<MappedFile>& files,
                                               const std::vector<std::string>& names) {
  const ProcessMemory process(pid);
  const auto python = FindPythonRuntime(pid, process, files);
  if (!python.ok()) return python.status();
  const CachedMemory memory(process);
  const PythonObjects objects(memory, python->layout);
  const auto variables = objects.ModuleVariables(python->main_interpreter, "os");
  const auto environ = variables ? objects.DictValue(*variables, "environ") : std::nullopt;
  const auto data = environ ? objects.Attribute(*environ, "_data") : std::nullopt;
  const auto items = data ? objects.DictItems(*data) : std::nullopt;
  if (!items || items->size() > kMostVariables) return absl::NotFoundError("no os.environ");
  std::string entries;
  for (const PythonItem& item : *items) {
    const auto name = objects.Bytes(item.key, kMostNameBytes);
    if (!name || std::find(names.begin(), names.end(), TextOf(*name)) == names.end()) continue;
    const auto value = objects.Bytes(item.value, kMostValueBytes);
    if (!value) continue;
    entries += TextOf(*name) + "=" + TextOf(*value);
    entries += kNul;
  }
  return entries;
}

std::optional<Environment> ReadPythonsEnvironment(Pid pid, const std::vector<MappedFile>& files,
                                                  const std::vector<std::string>& names) {
  if (FindPythonVersion(files).empty()) return std::nullopt;
  const auto entries =
      ReadInWorker(pid, kLongestReadingS, [&] { return ReadPythonsEntries(pid, files, names); });
  if (!entries.ok()) return std::nullopt;
  Environment environment;
  for (std::string_view entry : SplitText(*entries, kNul, /*skip_empty=*/true)) {
    AddVariable(entry, names, &environment);
  }
  return environment;
}

}  // namespace

std::optional<std::vector<std::string_view>> SplitEnvironment(std::string_view text) {
  std::vector<std::string_view> entries = SplitText(text, kNul, /*skip_empty=*/true);
  const bool is_one = !entries.empty() && !text.starts_with('\0') &&
                      std::all_of(entries.begin(), entries.end(), IsVariable);
  if (!is_one) return std::nullopt;
  return entries;
}

Environment ReadEnvironment(Pid pid, const std::vector<MappedFile>& files,
                            const std::vector<std::string>& names) {
  if (auto of_python = ReadPythonsEnvironment(pid, files, names)) return *std::move(of_python);
  const std::string text = ReadSmallFile(absl::StrCat("/proc/", Raw(pid), "/environ"), kMostBytes);
  const auto entries = SplitEnvironment(text);
  Environment environment;
  if (!entries || IsTitleInPlace(pid)) return environment;
  for (std::string_view entry : *entries) AddVariable(entry, names, &environment);
  return environment;
}

}  // namespace proftrace
