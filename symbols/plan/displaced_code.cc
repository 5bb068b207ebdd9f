#include "symbols/plan/displaced_code.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

constexpr char kWhere[] =
    "the code that the process runs in its place lies in memory that is no file's (text copied to "
    "huge pages or to a memfd, as by BOLT's --hugify), where neither probes nor jumps can be; "
    "start the job anew without that";

std::string DescribeDisplaced(Pid pid, const std::string& path) {
  return absl::StrCat("PID ", Raw(pid), " has no code of ", path,
                      " mapped from the file: ", kWhere);
}

std::string_view LastName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool AreOfOneFile(const Mapping& a, const Mapping& b) {
  return a.inode == b.inode && a.device == b.device && a.path == b.path;
}

}  // namespace

// Looks for the order in which a linker lays out a library, with foreign code in the middle: first
// the part of the file before its code, then executable memory of another file or of none, then the
// part of the file behind its code.
//
//   7f00_0000 r--p  libtorch_cpu.so, offset 0
//   7f04_0000 r-xp  (no file)
//   7f12_0000 r--p  libtorch_cpu.so, offset 0x120000
std::vector<std::string> FindDisplacedCode(const std::vector<Mapping>& mappings) {
  std::vector<std::string> paths;
  for (size_t i = 0; i + 2 < mappings.size(); ++i) {
    const Mapping& before = mappings[i];
    if (before.inode == 0 || before.executable || !before.path.starts_with('/')) continue;
    size_t next = i + 1;
    while (next < mappings.size() && mappings[next].executable &&
           mappings[next].start == mappings[next - 1].end &&
           !AreOfOneFile(mappings[next], before)) {
      ++next;
    }
    if (next == i + 1 || next == mappings.size()) continue;
    const Mapping& behind = mappings[next];
    const bool is_around = AreOfOneFile(behind, before) && behind.start == mappings[next - 1].end &&
                           behind.file_offset > before.file_offset;
    const bool has_code = std::any_of(mappings.begin(), mappings.end(), [&](const Mapping& other) {
      return other.executable && AreOfOneFile(other, before);
    });
    if (!is_around || has_code) continue;
    if (std::find(paths.begin(), paths.end(), before.path) == paths.end()) {
      paths.push_back(before.path);
    }
  }
  return paths;
}

absl::Status CheckTorchHasCode(Pid pid, const std::vector<std::string>& displaced) {
  for (const std::string& path : displaced) {
    if (!LastName(path).starts_with("libtorch")) continue;
    return Fail(ExitCode::kHostUnfit, DescribeDisplaced(pid, path));
  }
  return absl::OkStatus();
}

void AddDisplacedGaps(Pid pid, const std::vector<std::string>& displaced, ProbePlan* plan) {
  for (const std::string& path : displaced) {
    plan->gaps.push_back({"code that is in no file", DescribeDisplaced(pid, path)});
  }
}

}  // namespace proftrace
