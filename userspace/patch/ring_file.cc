#include "userspace/patch/ring_file.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "bpf/abi/patch_memory.h"
#include "symbols/plan/process.h"

namespace proftrace {
namespace {

constexpr char kRingPath[] = "/memfd:proftrace_patch (deleted)";

std::string ProcPath(Pid pid, const char* name) {
  return "/proc/" + std::to_string(Raw(LivingThread(pid))) + "/" + name;
}

}  // namespace

std::optional<Mapping> FindRingMapping(const std::vector<Mapping>& mappings) {
  const auto at = std::find_if(mappings.begin(), mappings.end(),
                               [](const Mapping& mapping) { return mapping.path == kRingPath; });
  if (at == mappings.end()) return std::nullopt;
  return *at;
}

bool IsRingDescriptor(Pid pid, int descriptor) {
  char path[sizeof(kRingPath)];
  const std::string link = ProcPath(pid, "fd/") + std::to_string(descriptor);
  const ssize_t bytes = readlink(link.c_str(), path, sizeof(path));
  return bytes > 0 && std::string_view(path, static_cast<size_t>(bytes)) == kRingPath;
}

std::vector<int> FindRingDescriptors(Pid pid) {
  std::vector<int> found;
  for (const uint32_t number : ReadNumberedEntries(ProcPath(pid, "fd"))) {
    const auto descriptor = static_cast<int>(number);
    if (IsRingDescriptor(pid, descriptor)) found.push_back(descriptor);
  }
  return found;
}

bool AnnounceRing(int file, const PatchRingOptions& options) {
  const auto write = [file](const void* data, size_t bytes, uint64_t at) {
    return pwrite(file, data, bytes, static_cast<off_t>(at)) == static_cast<ssize_t>(bytes);
  };
  std::vector<std::byte> header(PATCH_RING_HEADER_BYTES);
  const auto set = [&header](size_t offset, const auto& value) {
    std::memcpy(header.data() + offset, &value, sizeof(value));
  };
  const auto owner = static_cast<uint32_t>(getpid());
  const absl::StatusOr<ProcessInfo> self = ReadProcessInfo(Pid{owner});
  set(PATCH_RING_MAGIC, uint64_t{PATCH_RING_MAGIC_VALUE});
  set(PATCH_RING_VERSION, uint32_t{PATCH_RING_VERSION_VALUE});
  set(PATCH_RING_OWNER, owner);
  set(PATCH_RING_OWNER_START, self.ok() ? self->start_ticks : uint64_t{0});
  const size_t regions = std::min<size_t>(options.regions.size(), PATCH_RING_MOST_REGIONS);
  std::memcpy(header.data() + PATCH_RING_REGIONS, options.regions.data(),
              regions * sizeof(AddressRange));
  set(PATCH_RING_MASK, uint64_t{options.slot_words - 1});
  set(PATCH_RING_JUMPS, uint64_t{options.jumps.size()});
  if (options.filters.has_value()) {
    set(PATCH_RING_FILTERS, static_cast<uint32_t>(*options.filters) + 1);
  }
  if (options.python.has_value()) set(PATCH_RING_PYTHON_END, options.python->end);
  return write(options.jumps.data(), options.jumps.size() * sizeof(uint64_t),
               PatchRing::JumpsOffset(options)) &&
         write(header.data(), header.size(), 0);
}

}  // namespace proftrace
