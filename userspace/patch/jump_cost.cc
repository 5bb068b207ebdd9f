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
#include <vector>

#include "bpf/abi/patch_memory.h"
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/median.h"
#include "userspace/patch/patch_ring.h"
#include "userspace/patch/recorder_code.h"

namespace proftrace {
namespace {

constexpr int kBatches = 200;
constexpr int kBatch = 500;  // records of a batch, which fit into the ring
constexpr int64_t kLongNs = 3'600'000'000'000;

// Memory that is unmapped when the object ends.
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

// Code that does nothing but jump from line to line. It displaces other code in the caches, and in
// the processor's memory of jump targets.
constexpr size_t kLine = 64;
constexpr size_t kWalkedLines = 8192;
// The distance of two lines in bytes. It spreads the lines over more pages than a TLB holds.
constexpr size_t kWalkedStep = 4096 / 4 + 64;
constexpr size_t kWalkedDataBytes = 2u << 20;  // more than the caches that one CPU has for itself
constexpr int kColdRounds = 120;
// The number of functions that have a jump. They are as far from each other as functions of a
// library are.
constexpr size_t kFunctions = 64;
constexpr size_t kFunctionBytes = 4096 + 192;
// The number of calls in each round, after the caches were filled with other data.
constexpr size_t kColdCalls = 4;

using Function = void (*)();

class FunctionWriter {
 public:
  FunctionWriter(uint8_t* at, size_t offset) : at_(at), offset_(offset) {}
  void Add(std::initializer_list<uint8_t> bytes) {
    for (const uint8_t byte : bytes) at_[offset_++] = byte;
  }
  void Add32(uint32_t value) {
    std::memcpy(at_ + offset_, &value, sizeof(value));
    offset_ += sizeof(value);
  }
  void AddRelative(uint8_t opcode, size_t to) {
    Add({opcode});
    Add32(static_cast<uint32_t>(static_cast<int64_t>(to) - static_cast<int64_t>(offset_ + 4)));
  }

 private:
  uint8_t* at_;
  size_t offset_;
};

// The offsets of the parts of the code, in bytes.
struct Layout {
  size_t recorder = PATCH_CONTROL_BYTES;
  size_t functions = (PATCH_CONTROL_BYTES + RecorderCode().size() + 4095) / 4096 * 4096;
  size_t trampolines = functions + kFunctions * kFunctionBytes;
  size_t empty_functions = trampolines + kFunctions * kFunctionBytes;
  size_t walk = empty_functions + kFunctions * kFunctionBytes;
  size_t bytes = walk + kWalkedLines * kWalkedStep;
};

// Writes a function whose begin was moved into a trampoline, and an empty function. The trampoline
// saves the registers that most trampolines have to save.
void WriteFunction(uint8_t* code, const Layout& layout, size_t number) {
  const size_t function = layout.functions + number * kFunctionBytes;
  const size_t trampoline = layout.trampolines + number * kFunctionBytes;
  FunctionWriter begin(code, function);
  begin.AddRelative(0xe9, trampoline);
  begin.Add({0xc3});
  FunctionWriter moved(code, trampoline);
  moved.Add({0x9c, 0x50, 0x51, 0x52, 0x41, 0x50});  // pushfq; push rax, rcx, rdx, r8
  moved.Add({0x4c, 0x8d, 0x9c, 0x24});              // lea 40(%rsp), %r11
  moved.Add32(40);
  moved.Add({0x41, 0xba});  // mov $info, %r10d
  moved.Add32(uint32_t{abi::PT_SPAN_BEGIN} << 16 | uint32_t{PATCH_RECORD_WORDS} << 24);
  moved.AddRelative(0xe8, layout.recorder);
  moved.Add({0x41, 0x58, 0x5a, 0x59, 0x58, 0x9d});
  moved.AddRelative(0xe9, function + 5);
  FunctionWriter(code, layout.empty_functions + number * kFunctionBytes).Add({0xc3});
}

void WriteWalk(uint8_t* code, const Layout& layout) {
  for (size_t line = 0; line < kWalkedLines; ++line) {
    FunctionWriter jump(code, layout.walk + line * kWalkedStep);
    if (line + 1 == kWalkedLines) {
      jump.Add({0xc3});
    } else {
      jump.AddRelative(0xe9, layout.walk + (line + 1) * kWalkedStep);
    }
  }
}

double FastestNs(Function function, PatchRing* reader) {
  int64_t fastest_ns = std::numeric_limits<int64_t>::max();
  for (int batch = 0; batch < kBatches; ++batch) {
    const int64_t begin_ns = MonotonicNs();
    for (int i = 0; i < kBatch; ++i) function();
    fastest_ns = std::min(fastest_ns, MonotonicNs() - begin_ns);
    reader->Drain([](std::span<const std::byte>) {});
  }
  return static_cast<double>(fastest_ns) / kBatch;
}

// Returns how many nanoseconds one call of some of the functions takes after other data has filled
// all caches.
double ColdNs(uint8_t* functions, Function walk, std::vector<uint8_t>* data, PatchRing* reader) {
  std::vector<int64_t> rounds_ns;
  for (size_t round = 0; round < kColdRounds; ++round) {
    walk();
    for (size_t at = 0; at < data->size(); at += kLine) {
      volatile uint8_t* const byte = data->data() + at;
      *byte = static_cast<uint8_t>(*byte + 1);
    }
    const int64_t begin_ns = MonotonicNs();
    for (size_t i = 0; i < kColdCalls; ++i) {
      const size_t number = (round * kColdCalls + i) * 7 % kFunctions;
      reinterpret_cast<Function>(functions + number * kFunctionBytes)();
    }
    rounds_ns.push_back(MonotonicNs() - begin_ns);
    reader->Drain([](std::span<const std::byte>) {});
  }
  return static_cast<double>(Median(rounds_ns)) / kColdCalls;
}

}  // namespace

absl::StatusOr<JumpCost> MeasureJumpCost() {
  PatchRingOptions options;
  options.pid = Pid{static_cast<uint32_t>(getpid())};
  const UniqueFd memory(static_cast<int>(syscall(SYS_memfd_create, "proftrace_cost", 1u)));
  const Layout layout;
  const Mapping ring(PatchRing::Bytes(options), MAP_SHARED | MAP_NORESERVE, memory.get());
  const Mapping code(layout.bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
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
  for (size_t i = 0; i < kFunctions; ++i) WriteFunction(code.at(), layout, i);
  WriteWalk(code.at(), layout);
  if (mprotect(code.at(), layout.bytes, PROT_READ | PROT_EXEC) != 0) {
    return Fail(ExitCode::kHostUnfit, "code of its own may not run: " + ErrnoText(errno));
  }
  const auto at = [&](size_t offset) { return code.at() + offset; };
  const auto warm = reinterpret_cast<Function>(at(layout.functions));
  const auto walk = reinterpret_cast<Function>(at(layout.walk));
  std::vector<uint8_t> data(kWalkedDataBytes);
  const double empty_ns = ColdNs(at(layout.empty_functions), walk, &data, reader->get());
  const auto measure = [&] {
    const double cold_ns = ColdNs(at(layout.functions), walk, &data, reader->get());
    const double warm_ns = FastestNs(warm, reader->get());
    return JumpCost::Price{warm_ns, std::max(warm_ns, cold_ns - empty_ns)};
  };
  JumpCost cost;
  cost.record = measure();
  (*reader)->Demote(0, /*records_ends=*/false);
  cost.count = measure();
  return cost;
}

}  // namespace proftrace
