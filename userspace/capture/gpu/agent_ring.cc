#include "userspace/capture/gpu/agent_ring.h"

#include <absl/status/status.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "symbols/plan/process.h"
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/foreign_memory.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

constexpr uint64_t kLargestRingBytes = 1 << 30;
constexpr uint64_t kLargestRecordBytes = 255 * 8;
constexpr uint8_t kLastKind = 127;             // kinds from PT_GPU_NAME on are the agent's
constexpr uint64_t kGiveBackBytes = 64 << 10;  // the agent gets room back in pieces of this
constexpr int64_t kWaitNs = 5'000'000;

template <typename Number>
Number Load(const Number& shared) {
  return __atomic_load_n(&shared, __ATOMIC_ACQUIRE);
}

void Futex(uint32_t* word, int operation, uint32_t value, const timespec* timeout) {
  syscall(SYS_futex, word, operation, value, timeout, nullptr, 0);
}

// The properties of the memory that an agent makes, by which it is told from other memory of the
// same name.
constexpr MemoryRules kAgentMemory = {.name = PT_AGENT_MEMORY_NAME,
                                      .is_prefix = true,
                                      .needed_seals = F_SEAL_SHRINK,
                                      .least_bytes = PT_AGENT_PAGE_BYTES + 1,
                                      .most_bytes = PT_AGENT_PAGE_BYTES + kLargestRingBytes};

absl::Status Unfit(std::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat("the GPU agent's memory ", std::string(what)));
}

// Whether `pid` itself has made the memory, and not its parent. True also where that is not known.
bool IsOf(int memory, Pid pid) {
  const absl::StatusOr<ProcessInfo> info = ReadProcessInfo(pid);
  uint32_t owner = 0;
  const ssize_t bytes =
      pread(memory, &owner, sizeof(owner), static_cast<off_t>(offsetof(abi::pt_agent_page, pid)));
  return !info.ok() || bytes != sizeof(owner) || owner == 0 || owner == Raw(info->namespace_pid);
}

bool IsOver(uint32_t state) {
  return state == abi::PT_AGENT_STOPPED || state == abi::PT_AGENT_FAILED;
}

// Calls `take` with each agent's memory that a process has open, until `take` returns false.
absl::Status ForMemories(Pid pid, const std::function<bool(absl::StatusOr<UniqueFd>)>& take) {
  const std::string folder = absl::StrCat("/proc/", Raw(pid), "/fd");
  const std::string wanted = absl::StrCat("/memfd:", PT_AGENT_MEMORY_NAME);
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  if (error) {
    return absl::UnavailableError(absl::StrCat(folder, ": ", ErrnoText(error.value())));
  }
  for (; entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entries->path(), gone).string();
    if (gone || !absl::StartsWith(target, wanted)) continue;
    const auto number = ParseNumber<int>(entries->path().filename().string());
    if (!number.has_value()) continue;
    absl::StatusOr<UniqueFd> memory = CopyDescriptor(Raw(pid), *number);
    if (!memory->valid()) {
      memory =
          absl::UnavailableError(absl::StrCat(entries->path().string(), ": ", ErrnoText(errno)));
    } else if (const std::string why = WhyNotMemory(memory->get(), kAgentMemory); !why.empty()) {
      memory = Unfit(why);
    } else if (!IsOf(memory->get(), pid)) {
      continue;
    }
    if (!take(std::move(memory)) || error) break;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<AgentRing>> AgentRing::Open(Pid pid, ThreadNumber thread_number) {
  // A ring that is over is returned only where there is no other: a process may have had several
  // agents.
  std::unique_ptr<AgentRing> found;
  absl::Status problem;
  const absl::Status status = ForMemories(pid, [&](absl::StatusOr<UniqueFd> memory) {
    absl::StatusOr<std::unique_ptr<AgentRing>> ring =
        memory.ok() ? FromMemory(*std::move(memory), pid, thread_number) : memory.status();
    if (!ring.ok()) {
      problem = ring.status();
      return true;
    }
    found = *std::move(ring);
    return found->is_over();
  });
  if (!status.ok()) return status;
  if (found == nullptr && !problem.ok()) return problem;
  return found;
}

bool AgentRing::IsServed(Pid pid) {
  bool is_served = false;
  const absl::Status status = ForMemories(pid, [&](absl::StatusOr<UniqueFd> memory) {
    abi::pt_agent_page page{};
    if (!memory.ok() || pread(memory->get(), &page, sizeof(page), 0) != sizeof(page)) return true;
    const auto now = static_cast<uint64_t>(MonotonicNs());
    const bool is_alone =
        page.heartbeat_ns <= now && now - page.heartbeat_ns >= PT_AGENT_HEARTBEAT_LIMIT_NS;
    // In another version's page it is not known where a field lies.
    is_served = page.magic == PT_AGENT_MAGIC &&
                (page.version != PT_AGENT_VERSION || (!IsOver(page.state) && !is_alone));
    return !is_served;
  });
  return status.ok() && is_served;
}

absl::StatusOr<std::unique_ptr<AgentRing>> AgentRing::FromMemory(UniqueFd memory, Pid pid,
                                                                 ThreadNumber thread_number) {
  if (const std::string why = WhyNotMemory(memory.get(), kAgentMemory); !why.empty()) {
    return Unfit(why);
  }
  struct stat file {};
  if (fstat(memory.get(), &file) != 0) return Unfit("has a wrong size");
  const auto bytes = static_cast<uint64_t>(file.st_size);  // from here on it only grows
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (address == MAP_FAILED) {
    return absl::UnavailableError(absl::StrCat("mmap: ", ErrnoText(errno)));
  }
  std::unique_ptr<AgentRing> ring(
      new AgentRing(std::move(memory), pid, std::move(thread_number), address, bytes));
  const abi::pt_agent_page& page = *ring->page_;
  if (Load(page.magic) != PT_AGENT_MAGIC) return Unfit("is not ready");
  if (Load(page.version) != PT_AGENT_VERSION) return Unfit("is of another version of proftrace");
  if (!std::has_single_bit(ring->ring_bytes_) || ring->ring_bytes_ < 2 * kLargestRecordBytes ||
      Load(page.ring_bytes) != ring->ring_bytes_ || Load(page.page_bytes) != PT_AGENT_PAGE_BYTES) {
    return Unfit("has a wrong size");
  }
  ring->taken_ = Load(page.taken);
  return ring;
}

AgentRing::AgentRing(UniqueFd memory, Pid pid, ThreadNumber thread_number, void* address,
                     size_t bytes)
    : memory_(std::move(memory)),
      pid_(pid),
      thread_number_(std::move(thread_number)),
      page_(static_cast<abi::pt_agent_page*>(address)),
      ring_(static_cast<const std::byte*>(address) + PT_AGENT_PAGE_BYTES),
      ring_bytes_(bytes - PT_AGENT_PAGE_BYTES),
      mapped_bytes_(bytes) {}

AgentRing::~AgentRing() {
  Stop();
  munmap(page_, mapped_bytes_);
}

void AgentRing::Copy(uint64_t position, void* to, size_t bytes) const {
  const uint64_t start = position & (ring_bytes_ - 1);
  const size_t first = std::min<uint64_t>(bytes, ring_bytes_ - start);
  std::memcpy(to, ring_ + start, first);
  std::memcpy(static_cast<std::byte*>(to) + first, ring_, bytes - first);
}

void AgentRing::SkipTo(uint64_t written) {
  ++counts_.damages;
  counts_.skipped_bytes += std::min(written - taken_, ring_bytes_);
  taken_ = written;
}

void AgentRing::Beat() {
  __atomic_store_n(&page_->heartbeat_ns, static_cast<uint64_t>(MonotonicNs()), __ATOMIC_RELAXED);
}

void AgentRing::Drain(const OnRecord& on_record) {
  Beat();
  const uint64_t written = Load(page_->written);
  if (written - taken_ > ring_bytes_) SkipTo(written);
  alignas(8) std::array<std::byte, kLargestRecordBytes> bytes;
  uint64_t published = taken_;
  while (taken_ != written) {
    abi::pt_record head;
    const uint64_t left = written - taken_;
    if (left >= sizeof(head)) Copy(taken_, &head, sizeof(head));
    const uint64_t size = left >= sizeof(head) ? head.words * uint64_t{8} : 0;
    if (size < sizeof(head) || size > left) {
      SkipTo(written);
      break;
    }
    if (head.kind < abi::PT_GPU_NAME || head.kind > kLastKind) {
      ++counts_.foreign;
    } else {
      // The head is not read again: the job may have changed it.
      Copy(taken_ + sizeof(head), bytes.data() + sizeof(head), size - sizeof(head));
      head.pid = Raw(pid_);
      if (head.tid != 0) head.tid = thread_number_(head.tid);
      std::memcpy(bytes.data(), &head, sizeof(head));
      ++counts_.records;
      on_record(std::span<const std::byte>(bytes.data(), size));
    }
    taken_ += size;
    if (taken_ - published < kGiveBackBytes) continue;
    published = taken_;
    __atomic_store_n(&page_->taken, taken_, __ATOMIC_RELEASE);
  }
  __atomic_store_n(&page_->taken, taken_, __ATOMIC_RELEASE);
}

void AgentRing::Stop() {
  __atomic_store_n(&page_->command, static_cast<uint32_t>(abi::PT_AGENT_STOP), __ATOMIC_RELEASE);
  Futex(&page_->command, FUTEX_WAKE, INT32_MAX, nullptr);
}

bool AgentRing::WaitUntilStopped(int64_t deadline_ns, const OnRecord& on_record) {
  for (;;) {
    const uint32_t state = Load(page_->state);
    Drain(on_record);
    if (IsOver(state)) return true;
    if (MonotonicNs() >= deadline_ns) return false;
    if (kill(static_cast<pid_t>(Raw(pid_)), 0) != 0 && errno == ESRCH) return false;
    const timespec timeout{0, kWaitNs};
    Futex(&page_->state, FUTEX_WAIT, state, &timeout);
  }
}

bool AgentRing::is_over() const { return IsOver(Load(page_->state)); }

bool AgentRing::is_running() const { return Load(page_->state) == abi::PT_AGENT_RUNNING; }

AgentReport AgentRing::report() const {
  AgentReport report;
  const uint32_t state = Load(page_->state);
  if (state <= abi::PT_AGENT_FLUSHING) report.state = static_cast<abi::pt_agent_state>(state);
  const uint32_t failure = Load(page_->failure);
  if (failure <= abi::PT_AGENT_ABANDONED) {
    report.failure = static_cast<abi::pt_agent_failure>(failure);
  }
  report.cupti_result = Load(page_->cupti_result);
  report.cupti_version = Load(page_->cupti_version);
  report.driver_version = Load(page_->driver_version);
  report.runtime_version = Load(page_->runtime_version);
  report.cupti_records = Load(page_->cupti_records);
  report.ring_records = Load(page_->ring_records);
  report.ring_dropped = Load(page_->ring_dropped);
  report.unread_records = Load(page_->unread_records);
  report.cupti_dropped = Load(page_->cupti_dropped);
  report.buffers_refused = Load(page_->buffers_refused);
  report.incomplete_buffers = Load(page_->incomplete_buffers);
  report.incomplete_bytes = Load(page_->incomplete_bytes);
  std::array<char, PT_AGENT_MESSAGE_BYTES> message;
  std::memcpy(message.data(), page_->message, message.size());
  report.message.assign(message.data(), strnlen(message.data(), message.size()));
  for (char& character : report.message) {
    if (character < ' ' || character > '~') character = '?';
  }
  return report;
}

}  // namespace proftrace
