#include "userspace/inject/restartable_sequence.h"

#include <linux/rseq.h>
#include <sys/ptrace.h>

#include <cstddef>
#include <cstdint>

namespace proftrace {
namespace {

// These are in linux/ptrace.h since Linux 5.13, which cannot be included together with libc's
// header.
constexpr auto kGetConfiguration = static_cast<__ptrace_request>(0x420f);
struct RseqConfiguration {
  uint64_t area;
  uint32_t area_bytes;
  uint32_t signature;
  uint32_t flags;
  uint32_t padding;
};

}  // namespace

void LeaveRestartableSequence(int tid, const WritableMemory& memory, user_regs_struct* registers) {
  RseqConfiguration configuration{};
  if (ptrace(kGetConfiguration, tid, sizeof(configuration), &configuration) <= 0 ||
      configuration.area == 0) {
    return;
  }
  const uint64_t place = configuration.area + offsetof(rseq, rseq_cs);
  uint64_t address = 0;
  rseq_cs sequence{};
  uint32_t signature = 0;
  if (!memory.ReadValue(place, &address) || address == 0 || !memory.ReadValue(address, &sequence) ||
      registers->rip - sequence.start_ip >= sequence.post_commit_offset ||
      !memory.ReadValue(sequence.abort_ip - sizeof(signature), &signature) ||
      signature != configuration.signature) {
    return;
  }
  if (memory.WriteValue(place, uint64_t{0})) registers->rip = sequence.abort_ip;
}

}  // namespace proftrace
