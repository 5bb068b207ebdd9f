#include "symbols/plan/process_environment.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "symbols/plan/process.h"
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
constexpr std::string_view kNul("\0", 1);

bool IsVariable(std::string_view entry) {
  const size_t equals = entry.find('=');
  if (equals == 0 || equals == std::string_view::npos) return false;
  const std::string_view name = entry.substr(0, equals);
  return std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

std::optional<int> NumberOf(std::string_view text) {
  const auto number = ParseNumber<int>(text);
  return number && *number >= 0 ? number : std::nullopt;
}

std::string TextOf(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

// Whether a title that began in the place of the arguments goes on into that of the environment:
// the byte in between is not the end of the last argument any more, as the kernel sees it, too
// (fs/proc/base.c, get_mm_cmdline).
bool IsTitleInPlace(Pid pid) {
  constexpr size_t kEnvironmentBegin = 47;  // field 50 of /proc/PID/stat, from the third on
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

// os.environ, as far as the process has changed nothing of its class.
std::vector<std::optional<int>> ReadPythonsNumbers(Pid pid, const std::vector<MappedFile>& files,
                                                   const std::vector<std::string_view>& names) {
  std::vector<std::optional<int>> numbers(names.size());
  if (FindPythonVersion(files).empty()) return numbers;
  const ProcessMemory process(pid);
  const auto python = FindPythonRuntime(pid, process, files);
  if (!python.ok()) return numbers;
  const CachedMemory memory(process);
  const PythonObjects objects(memory, python->layout);
  const auto variables = objects.ModuleVariables(python->main_interpreter, "os");
  const auto environ = variables ? objects.DictValue(*variables, "environ") : std::nullopt;
  const auto data = environ ? objects.Attribute(*environ, "_data") : std::nullopt;
  const auto items = data ? objects.DictItems(*data) : std::nullopt;
  if (!items || items->size() > kMostVariables) return numbers;
  for (const PythonItem& item : *items) {
    const auto name = objects.Bytes(item.key, kMostNameBytes);
    if (!name) continue;
    for (size_t i = 0; i < names.size(); ++i) {
      if (TextOf(*name) != names[i]) continue;
      const auto value = objects.Bytes(item.value, kMostNameBytes);
      numbers[i] = value ? NumberOf(TextOf(*value)) : std::nullopt;
    }
  }
  return numbers;
}

}  // namespace

std::optional<std::vector<std::string_view>> SplitEnvironment(std::string_view text) {
  std::vector<std::string_view> entries = SplitText(text, kNul, /*skip_empty=*/true);
  const bool is_one = !entries.empty() && !text.starts_with('\0') &&
                      std::all_of(entries.begin(), entries.end(), IsVariable);
  if (!is_one) return std::nullopt;
  return entries;
}

std::vector<std::optional<int>> ReadEnvironmentNumbers(Pid pid,
                                                       const std::vector<MappedFile>& files,
                                                       const std::vector<std::string_view>& names) {
  const std::string text = ReadSmallFile(absl::StrCat("/proc/", Raw(pid), "/environ"), kMostBytes);
  const auto entries = SplitEnvironment(text);
  if (!entries || IsTitleInPlace(pid)) return ReadPythonsNumbers(pid, files, names);
  std::vector<std::optional<int>> numbers(names.size());
  for (std::string_view entry : *entries) {
    for (size_t i = 0; i < names.size(); ++i) {
      std::string_view value = entry;
      if (!ConsumeText(&value, names[i]) || !ConsumeText(&value, "=") || numbers[i]) continue;
      numbers[i] = NumberOf(value);
    }
  }
  return numbers;
}

}  // namespace proftrace
