#include "userspace/inject/writable_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "symbols/process/process_maps.h"
#include "userspace/base/exit_status.h"
#include "userspace/inject/trace_permission.h"

namespace proftrace {

absl::StatusOr<WritableMemory> WritableMemory::Open(Pid pid) {
  const std::string path = "/proc/" + std::to_string(Raw(LivingThread(pid))) + "/mem";
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (fd.valid()) return WritableMemory(std::move(fd));
  if (errno == ENOENT || errno == ESRCH) {
    return Fail(ExitCode::kNoTarget,
                "PID " + std::to_string(Raw(pid)) + " has ended: its memory cannot be reached");
  }
  return TraceRefusal(pid, errno);
}

bool WritableMemory::Read(uint64_t address, void* buffer, size_t bytes) const {
  auto* to = static_cast<char*>(buffer);
  while (bytes > 0) {
    const ssize_t got = pread(fd_.get(), to, bytes, static_cast<off_t>(address));
    if (got <= 0) return false;
    to += got;
    address += static_cast<uint64_t>(got);
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool WritableMemory::Write(uint64_t address, const void* buffer, size_t bytes) const {
  const auto* from = static_cast<const char*>(buffer);
  while (bytes > 0) {
    const ssize_t put = pwrite(fd_.get(), from, bytes, static_cast<off_t>(address));
    if (put <= 0) return false;
    from += put;
    address += static_cast<uint64_t>(put);
    bytes -= static_cast<size_t>(put);
  }
  return true;
}

}  // namespace proftrace
