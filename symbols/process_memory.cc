#include "symbols/process_memory.h"

#include <sys/uio.h>

#include <cerrno>

#include "symbols/process_maps.h"
#include "symbols/read_budget.h"

namespace proftrace {

std::optional<uint64_t> TargetMemory::ReadWord(uint64_t address) const {
  uint64_t word = 0;
  if (!Read(address, &word, sizeof(word))) return std::nullopt;
  return word;
}

bool ProcessMemory::Read(uint64_t address, void* buffer, size_t bytes) const {
  if (bytes == 0) return true;
  if (!ReadBudget::PayAll(bytes)) return false;
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
