// The recorder's own code and a ring of its own, for threads of this process.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "bpf/abi/records.h"
#include "userspace/patch/patch_ring.h"
#include "userspace/patch/recorder_code.h"

namespace proftrace {

inline constexpr uint32_t kSlotWords = 4096;

inline PatchRingOptions Options() {
  PatchRingOptions options;
  options.slot_words = kSlotWords;
  return options;
}
inline constexpr size_t kCodeBytes = 16 * 4096;  // with the control page
inline constexpr int64_t kLong = 3'600'000'000'000;

inline uint32_t OwnTid() { return static_cast<uint32_t>(syscall(SYS_gettid)); }

// Returns where this libc has a thread's id, from its control block.
inline int32_t TidOffset() {
  uint64_t block = 0;
  asm volatile("mov %%fs:0x10, %0" : "=r"(block));
  for (int32_t offset = 0; offset < 2048; offset += 4) {
    uint32_t word = 0;
    std::memcpy(&word, reinterpret_cast<const void*>(block + static_cast<uint64_t>(offset)), 4);
    if (word == OwnTid()) return offset;
  }
  return -1;
}

struct Seen {
  uint64_t time_ns;
  uint32_t tid;
  uint32_t sp;
  uint16_t site;
  uint8_t kind;
  uint64_t value;
};

// The recorder's code behind a control page, and its ring, in this process.
class Recorder {
 public:
  Recorder() {
    UniqueFd memory(static_cast<int>(syscall(SYS_memfd_create, "ring", 0)));
    const uint64_t bytes = PatchRing::Bytes(Options());
    EXPECT_EQ(ftruncate(memory.get(), static_cast<off_t>(bytes)), 0);
    ring_at_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
    code_ = static_cast<uint8_t*>(
        mmap(nullptr, kCodeBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_EQ(madvise(code_, PATCH_CONTROL_BYTES, MADV_WIPEONFORK), 0);
    std::memcpy(code_ + PATCH_CONTROL_BYTES, RecorderCode().data(), RecorderCode().size());
    EXPECT_EQ(mprotect(code_ + PATCH_CONTROL_BYTES, kCodeBytes - PATCH_CONTROL_BYTES,
                       PROT_READ | PROT_EXEC),
              0);
    PatchRingOptions options = Options();
    options.pid = Pid{static_cast<uint32_t>(getpid())};
    options.tid_offset = TidOffset();
    options.address = reinterpret_cast<uint64_t>(ring_at_);
    options.salt = 0x12345678;
    absl::StatusOr<std::unique_ptr<PatchRing>> ring =
        PatchRing::Make(memory, options, [](uint32_t tid) { return tid; });
    EXPECT_TRUE(ring.ok()) << ring.status();
    ring_ = *std::move(ring);
    const uint64_t address = options.address;
    std::memcpy(code_ + PATCH_CONTROL_RING, &address, sizeof(address));
    ring_->LetWrite(kLong);
  }
  ~Recorder() {
    munmap(code_, kCodeBytes);
    munmap(ring_at_, PatchRing::Bytes(Options()));
  }

  // Records as a trampoline does. What the recorder may not change is checked.
  void Record(uint16_t site, uint8_t kind, uint64_t sp) const {
    register uint64_t info asm("r10") = site | uint64_t{kind} << 16 | 3ull << 24;
    register uint64_t stack asm("r11") = sp;
    asm volatile("lea -128(%%rsp), %%rsp; call *%[code]; lea 128(%%rsp), %%rsp"
                 : "+r"(info), "+r"(stack)
                 : [code] "b"(code_ + PATCH_CONTROL_BYTES)
                 : "rax", "rcx", "rdx", "r8", "memory", "cc");
  }

  // Records an operator's begin in this way. `facts`: as recorder_code.h has them, without the
  // site.
  void RecordOperator(uint16_t site, uint64_t key_set = 0, uint32_t facts = 0) const {
    register uint64_t info asm("r10") = site | facts;
    register uint64_t stack asm("r11") = 64;
    asm volatile("lea -128(%%rsp), %%rsp; call *%[code]; lea 128(%%rsp), %%rsp"
                 : "+r"(info), "+r"(stack), "+D"(key_set)
                 : [code] "b"(code_ + PATCH_CONTROL_BYTES +
                              (proftrace_recorder_operator - proftrace_recorder_code))
                 : "rax", "rcx", "rdx", "r8", "memory", "cc");
  }

  void SetAutograd(const abi::pt_autograd_layout& layout) const {
    std::memcpy(code_ + PATCH_CONTROL_AUTOGRAD, &layout, sizeof(layout));
  }

  std::vector<Seen> Drain() {
    std::vector<Seen> seen;
    ring_->Drain([&](std::span<const std::byte> bytes) {
      abi::pt_pointer_record record{};
      std::memcpy(&record, bytes.data(), std::min(bytes.size(), sizeof(record)));
      EXPECT_EQ(record.head.pid, static_cast<uint32_t>(getpid()));
      seen.push_back({record.head.time_ns, record.head.tid, record.head.sp, record.head.site,
                      record.head.kind, bytes.size() > 24 ? record.value : 0});
    });
    return seen;
  }

  PatchRing* ring() { return ring_.get(); }
  std::byte* memory() { return static_cast<std::byte*>(ring_at_); }

 private:
  void* ring_at_ = nullptr;
  uint8_t* code_ = nullptr;
  std::unique_ptr<PatchRing> ring_;
};

}  // namespace proftrace
