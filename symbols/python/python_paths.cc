#include "symbols/python/python_paths.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <functional>
#include <set>

#include "symbols/process/cached_memory.h"
#include "symbols/process/target_entries.h"
#include "symbols/python/python_objects.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

// PATH_MAX: no longer path can be opened.
constexpr size_t kMostPathBytes = 4096;
// The limit for all paths together, which become a table of the capture.
constexpr size_t kMostBytes = size_t{16} << 20;

std::string LinkOf(Pid pid, const char* name) {
  return ReadEntryLink(absl::StrCat("/proc/", Raw(pid), "/", name));
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

// Adds the folders of site.getsitepackages(), and those of Debian's version of that function. A
// folder that the process does not use does no harm, because no file of the process lies in it.
void AddSitePackages(const std::string& prefix, const std::string& library_folder,
                     const std::string& version, std::vector<std::string>* paths) {
  for (const std::string& library : {library_folder, std::string("lib")}) {
    paths->push_back(absl::StrCat(prefix, "/", library, "/python", version, "/site-packages"));
  }
  paths->push_back(absl::StrCat(prefix, "/local/lib/python", version, "/dist-packages"));
  paths->push_back(absl::StrCat(prefix, "/lib/python3/dist-packages"));
  paths->push_back(absl::StrCat(prefix, "/lib/python", version, "/dist-packages"));
}

}  // namespace

std::string AbsolutePythonPath(std::string_view path, std::string_view folder) {
  std::string joined(path);
  if (!path.starts_with('/')) {
    joined = absl::StrCat(std::string(folder), folder.ends_with('/') ? "" : "/", joined);
  }
  std::vector<std::string_view> parts;
  for (const std::string_view part : SplitText(joined, "/", /*skip_empty=*/true)) {
    if (part == ".") continue;
    if (part != "..") {
      parts.push_back(part);
    } else if (!parts.empty()) {
      parts.pop_back();
    }
  }
  // Exactly two slashes at the beginning stay, as POSIX allows; three or more become one.
  std::string absolute = joined.starts_with("//") && !joined.starts_with("///") ? "/" : "";
  for (const std::string_view part : parts) absolute += "/" + std::string(part);
  return parts.empty() ? absolute + "/" : absolute;
}

std::vector<std::string> ReadPythonPaths(Pid pid, const TargetMemory& memory,
                                         const PythonRuntime& runtime) {
  const CachedMemory cached(memory);
  const PythonObjects objects(cached, runtime.layout);
  const auto text = [&](std::optional<uint64_t> variables, std::string_view name) {
    const auto value = variables ? objects.DictValue(*variables, name) : std::nullopt;
    return value ? objects.Text(*value, kMostPathBytes) : std::nullopt;
  };
  const auto modules = [&](std::string_view name) {
    return objects.ModuleVariables(runtime.main_interpreter, name);
  };
  const auto variables =
      cached.ReadWord(runtime.main_interpreter + runtime.layout.interpreter_variables);
  std::vector<std::string> raw;
  const auto path = variables ? objects.DictValue(*variables, "path") : std::nullopt;
  if (const auto items = path ? objects.Items(*path) : std::nullopt) {
    size_t bytes = 0;
    for (const uint64_t item : *items) {
      auto folder = objects.Text(item, kMostPathBytes + 1);  // a longer text is cut there
      if (!folder || folder->size() > kMostPathBytes) continue;
      bytes += folder->size() + sizeof(std::string);
      if (bytes > kMostBytes) break;
      raw.push_back(*std::move(folder));
    }
  }
  const std::string version = PythonVersionText(runtime.layout.stack.version);
  for (const std::string_view name : {"prefix", "exec_prefix"}) {
    const auto prefix = text(variables, name);
    if (!prefix) continue;
    AddSitePackages(*prefix, text(variables, "platlibdir").value_or("lib"), version, &raw);
  }
  const auto site = modules("site");
  for (const std::string_view name : {"USER_BASE", "USER_SITE"}) {
    if (const auto folder = text(site, name)) raw.push_back(*folder);
  }
  if (const auto torch = text(modules("torch"), "__file__"))
    raw.push_back(FolderOf(FolderOf(*torch)));

  const std::string root = LinkOf(pid, "root");
  const std::string link = LinkOf(pid, "cwd");
  const std::string folder = link == root ? "/" : PathBelowRoot(link, root);
  std::set<std::string, std::greater<>> sorted;
  for (const std::string& one : raw) sorted.insert(AbsolutePythonPath(one, folder));
  std::vector<std::string> paths;
  for (const std::string& one : sorted) paths.push_back(one + "/");
  return paths;
}

}  // namespace proftrace
