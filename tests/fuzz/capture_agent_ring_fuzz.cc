// The GPU agent's ring: the memory of a job as the input has it. First the page's fields that the
// reader looks at, then pieces of the ring, each drained.
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "userspace/capture/gpu/agent_ring.h"

namespace {

constexpr size_t kRingBytes = 1 << 13;
constexpr size_t kBytes = PT_AGENT_PAGE_BYTES + kRingBytes;

struct Memory {
  Memory() {
    fd = static_cast<int>(
        syscall(SYS_memfd_create, PT_AGENT_MEMORY_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (ftruncate(fd, kBytes) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0) std::abort();
    bytes = static_cast<uint8_t*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  }
  int fd;
  uint8_t* bytes;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static Memory memory;
  std::memset(memory.bytes, 0, kBytes);
  auto* page = reinterpret_cast<proftrace::abi::pt_agent_page*>(memory.bytes);
  const size_t page_bytes = size < 384 ? size : 384;
  std::memcpy(page, data, page_bytes);
  // Else few inputs get any further.
  if ((data[0] & 1) != 0) {
    page->magic = PT_AGENT_MAGIC;
    page->version = PT_AGENT_VERSION;
    page->page_bytes = PT_AGENT_PAGE_BYTES;
    page->ring_bytes = kRingBytes;
  }
  auto ring = proftrace::AgentRing::FromMemory(proftrace::UniqueFd(dup(memory.fd)),
                                               proftrace::Pid{1}, [](uint32_t tid) { return tid; });
  if (!ring.ok()) return 0;
  (*ring)->report();
  uint64_t sum = 0;
  const auto add = [&](std::span<const std::byte> record) {
    for (const std::byte byte : record) sum += static_cast<uint64_t>(byte);
  };
  for (size_t at = page_bytes; at + 10 <= size;) {
    uint16_t jump;
    std::memcpy(&jump, data + at, sizeof(jump));
    const size_t piece = size - at - 2 < 2048 ? size - at - 2 : 2048;
    std::memcpy(memory.bytes + PT_AGENT_PAGE_BYTES + page->written % (kRingBytes - 2048),
                data + at + 2, piece);
    page->written += jump;
    (*ring)->Drain(add);
    if (page->taken != page->written) std::abort();
    at += 2 + piece;
  }
  return sum == ~uint64_t{0};
}
