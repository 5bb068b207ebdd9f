#include "symbols/process/process_memory.h"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>

#include "symbols/process/process_maps.h"
#include "symbols/process/read_budget.h"
#include "symbols/process/target_entries.h"
#include "userspace/base/of_this_process.h"
#include "userspace/base/unique_fd.h"

namespace proftrace {

namespace {

// The descriptors of /proc/PID/mem that a worker has; it asks once for each process.
struct Memories {
  std::mutex mutex;
  std::map<Pid, UniqueFd> files;
};

constinit OfThisProcess<Memories> open_memories;

int MemoryOf(Pid pid) {
  Memories& memories = open_memories.Get();
  const std::lock_guard lock(memories.mutex);
  UniqueFd& memory = memories.files[pid];
  if (!memory.valid()) {
    memory = OpenEntry("/proc/" + std::to_string(Raw(LivingThread(pid))) + "/mem");
  }
  return memory.get();
}

bool ReadThrough(int fd, uint64_t address, void* buffer, size_t bytes) {
  auto* place = static_cast<char*>(buffer);
  while (bytes > 0) {
    const ssize_t got = pread(fd, place, bytes, static_cast<off_t>(address));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    place += got;
    address += static_cast<uint64_t>(got);
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

}  // namespace

void ForgetMemory(Pid pid) {
  Memories& memories = open_memories.Get();
  const std::lock_guard lock(memories.mutex);
  memories.files.erase(pid);
}

std::optional<uint64_t> TargetMemory::ReadWord(uint64_t address) const {
  uint64_t word = 0;
  if (!Read(address, &word, sizeof(word))) return std::nullopt;
  return word;
}

bool ProcessMemory::Read(uint64_t address, void* buffer, size_t bytes) const {
  if (bytes == 0) return true;
  if (!ReadBudget::PayAll(bytes)) return false;
  if (EntryChannel() != nullptr) return ReadThrough(MemoryOf(pid_), address, buffer, bytes);
  iovec local{buffer, bytes};
  iovec remote{reinterpret_cast<void*>(address), bytes};
  ssize_t got = process_vm_readv(static_cast<pid_t>(Raw(pid_)), &local, 1, &remote, 1, 0);
  if (got < 0 && errno == ESRCH) {
    const auto other = static_cast<pid_t>(Raw(LivingThread(pid_)));
    got = process_vm_readv(other, &local, 1, &remote, 1, 0);
  }
  return got == static_cast<ssize_t>(bytes);
}

std::optional<std::string> ReadStdString(const TargetMemory& memory, uint64_t address, bool old_abi,
                                         size_t limit_bytes) {
  uint64_t words[2] = {0, 0};  // characters, length
  if (old_abi) {
    const auto characters = memory.ReadWord(address);
    if (!characters || *characters < 24) return std::nullopt;
    const auto length = memory.ReadWord(*characters - 24);
    if (!length) return std::nullopt;
    words[0] = *characters;
    words[1] = *length;
  } else if (!memory.Read(address, words, sizeof(words))) {
    return std::nullopt;
  }
  if (words[1] > limit_bytes) return std::nullopt;
  std::string text(words[1], '\0');
  if (!memory.Read(words[0], text.data(), text.size())) return std::nullopt;
  return text;
}

}  // namespace proftrace
