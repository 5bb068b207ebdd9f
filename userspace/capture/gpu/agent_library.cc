#include "userspace/capture/gpu/agent_library.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <memory>
#include <utility>

#include "symbols/elf/elf_file.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/unique_fd.h"

extern "C" {
extern const char proftrace_agent_library[];
extern const char proftrace_agent_library_end[];
}

namespace proftrace {
namespace {

constexpr size_t kBuildIdDigits = 16;
// The places of the agent's file, relative to the program's folder.
constexpr std::string_view kPlaces[] = {"libproftrace_agent.so",
                                        "../lib/proftrace/libproftrace_agent.so"};

absl::StatusOr<std::string> BuildIdOf(UniqueFd fd) {
  const absl::StatusOr<std::unique_ptr<ElfFile>> elf = ElfFile::Open(std::move(fd));
  if (!elf.ok()) return elf.status();
  return (*elf)->build_id().substr(0, kBuildIdDigits);
}

}  // namespace

std::string_view AgentLibrary() {
  return {proftrace_agent_library,
          static_cast<size_t>(proftrace_agent_library_end - proftrace_agent_library)};
}

absl::StatusOr<std::string> AgentBuildId() {
  UniqueFd fd(memfd_create("agent", MFD_CLOEXEC));
  const std::string_view bytes = AgentLibrary();
  if (!fd.valid() ||
      write(fd.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    return absl::UnavailableError("no memory for the agent: " + ErrnoText(errno));
  }
  return BuildIdOf(std::move(fd));
}

std::string FindAgentFile() {
  char path[4096];
  const ssize_t bytes = readlink("/proc/self/exe", path, sizeof(path));
  if (bytes <= 0) return "";
  std::string folder(path, static_cast<size_t>(bytes));
  folder.resize(folder.rfind('/') + 1);
  const absl::StatusOr<std::string> wanted = AgentBuildId();
  // An agent of another build would be taken for another user of CUPTI.
  const auto is_agent = [&](std::string_view place) {
    UniqueFd fd(open((folder + std::string(place)).c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid() || !wanted.ok()) return false;
    const absl::StatusOr<std::string> build_id = BuildIdOf(std::move(fd));
    return build_id.ok() && *build_id == *wanted;
  };
  const auto found = std::find_if(std::begin(kPlaces), std::end(kPlaces), is_agent);
  return found == std::end(kPlaces) ? "" : folder + std::string(*found);
}

}  // namespace proftrace
