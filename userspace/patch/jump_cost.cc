#include "userspace/patch/jump_cost.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>

#include "bpf/abi/patch_memory.h"
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/patch/patch_ring.h"
#include "userspace/patch/recorder_code.h"

namespace proftrace {
namespace {

constexpr int kBatches = 200;
constexpr int kBatch = 500;  // records; fit into the ring
constexpr int64_t kLongNs = 3'600'000'000'000;

// Memory that is given back.
class Mapping {
 public:
  Mapping(size_t bytes, int flags, int fd)
      : bytes_(bytes), at_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0)) {}
  ~Mapping() {
    if (valid()) munmap(at_, bytes_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  bool valid() const { return at_ != MAP_FAILED; }
  uint8_t* at() const { return static_cast<uint8_t*>(at_); }

 private:
  size_t bytes_;
  void* at_;
};

void Record(const uint8_t* recorder) {
  register uint64_t info asm("r10") =
      uint64_t{abi::PT_SPAN_BEGIN} << 16 | uint64_t{PATCH_RECORD_WORDS} << 24;
  register uint64_t stack asm("r11") = 0;
  asm volatile("call *%[recorder]"
               : "+r"(info), "+r"(stack)
               : [recorder] "b"(recorder)
               : "rax", "rcx", "rdx", "r8", "memory", "cc");
}

double FastestNs(const uint8_t* recorder, PatchRing* reader) {
  int64_t fastest_ns = std::numeric_limits<int64_t>::max();
  for (int batch = 0; batch < kBatches; ++batch) {
    const int64_t begin_ns = MonotonicNs();
    for (int i = 0; i < kBatch; ++i) Record(recorder);
    fastest_ns = std::min(fastest_ns, MonotonicNs() - begin_ns);
    reader->Drain([](std::span<const std::byte>) {});
  }
  return static_cast<double>(fastest_ns) / kBatch;
}

}  // namespace

absl::StatusOr<JumpCost> MeasureJumpCost() {
  PatchRingOptions options;
  options.pid = Pid{static_cast<uint32_t>(getpid())};
  const UniqueFd memory(static_cast<int>(syscall(SYS_memfd_create, "proftrace_cost", 1u)));
  const size_t code_bytes = PATCH_CONTROL_BYTES + RecorderCode().size();
  const Mapping ring(PatchRing::Bytes(options), MAP_SHARED | MAP_NORESERVE, memory.get());
  const Mapping code(code_bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  if (!memory.valid() || !ring.valid() || !code.valid() ||
      ftruncate(memory.get(), static_cast<off_t>(PatchRing::Bytes(options))) != 0) {
    return Fail(ExitCode::kHostUnfit, "there is no memory for a ring: " + ErrnoText(errno));
  }
  options.address = reinterpret_cast<uint64_t>(ring.at());
  absl::StatusOr<std::unique_ptr<PatchRing>> reader =
      PatchRing::Make(memory, options, [](uint32_t tid) { return tid; });
  if (!reader.ok()) return reader.status();
  (*reader)->LetWrite(kLongNs);
  std::memcpy(code.at() + PATCH_CONTROL_RING, &options.address, sizeof(options.address));
  std::memcpy(code.at() + PATCH_CONTROL_BYTES, RecorderCode().data(), RecorderCode().size());
  if (mprotect(code.at(), code_bytes, PROT_READ | PROT_EXEC) != 0) {
    return Fail(ExitCode::kHostUnfit, "code of its own may not run: " + ErrnoText(errno));
  }
  JumpCost cost;
  cost.record = FastestNs(code.at() + PATCH_CONTROL_BYTES, reader->get());
  (*reader)->Demote(0, /*records_ends=*/false);
  cost.count = FastestNs(code.at() + PATCH_CONTROL_BYTES, reader->get());
  return cost;
}

}  // namespace proftrace
