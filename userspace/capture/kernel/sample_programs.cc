#include "userspace/capture/kernel/sample_programs.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "samples.skel.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/unique_fd.h"
#include "userspace/capture/kernel/kernel_types.h"
#include "userspace/capture/kernel/load_messages.h"
#include "userspace/capture/kernel/pid_namespace.h"
#include "userspace/capture/kernel/record_ring.h"

namespace proftrace {
namespace {

constexpr uint32_t kSmallestRing = 4u << 20;
// Room for the samples of some thousand wakers.
constexpr uint32_t kSmallestWakerRing = 32u << 20;
// How many samples a CPU may have between two looks of the tracer.
constexpr uint32_t kSamplesPerCpu = 8;
constexpr size_t kReadBytes = 65536;

uint32_t RingBytes(uint32_t cpus, bool wakers) {
  uint32_t bytes = wakers ? kSmallestWakerRing : kSmallestRing;
  while (bytes < cpus * kSamplesPerCpu * sizeof(abi::pt_raw_sample) && bytes < (1u << 30)) {
    bytes *= 2;
  }
  return bytes;
}

absl::Status Failed(const char* what, int error) {
  const ExitCode code =
      error == EPERM || error == EACCES ? ExitCode::kNotPermitted : ExitCode::kHostUnfit;
  return Fail(code, std::string("cannot sample: ") + what + ": " + ErrnoText(error));
}

}  // namespace

struct SamplePrograms::Impl {
  struct Deleter {
    void operator()(samples_bpf* skeleton) const { samples_bpf__destroy(skeleton); }
  };
  std::unique_ptr<samples_bpf, Deleter> skeleton;
  RecordRing ring;
  bpf_link* lister = nullptr;
  std::vector<bpf_link*> links;  // of the clocks, and of wakers

  void Detach() {
    for (bpf_link* link : links) bpf_link__destroy(link);
    links.clear();
  }

  ~Impl() {
    Detach();
    bpf_link__destroy(lister);
  }
};

SamplePrograms::SamplePrograms() : impl_(std::make_unique<Impl>()) {}
SamplePrograms::~SamplePrograms() = default;

absl::StatusOr<std::unique_ptr<SamplePrograms>> SamplePrograms::Load(bool wakers) {
  std::unique_ptr<SamplePrograms> programs(new SamplePrograms);
  Impl& impl = *programs->impl_;
  impl.skeleton.reset(samples_bpf__open());
  if (impl.skeleton == nullptr) return Failed("the BPF programs", errno);
  samples_bpf* skeleton = impl.skeleton.get();
  const auto cpus = static_cast<uint32_t>(std::max(1, libbpf_num_possible_cpus()));
  bpf_map__set_max_entries(skeleton->maps.sample_buffers, cpus);
  bpf_map__set_max_entries(skeleton->maps.waker_buffers, wakers ? cpus : 1);
  bpf_map__set_max_entries(skeleton->maps.sample_ring, RingBytes(cpus, wakers));
  bpf_program__set_autoload(skeleton->progs.on_waker, wakers);
  const LoadMessages messages;
  if (const int error = LoadPrograms([skeleton] { return samples_bpf__load(skeleton); });
      error != 0) {
    return messages.Refusal("cannot sample, which needs Linux 5.17 or later", -error);
  }
  absl::Status status = FindPidNamespace(bpf_program__fd(skeleton->progs.read_pidns_level));
  if (!status.ok()) return status;
  if (!impl.ring.Open(skeleton->maps.sample_ring)) return Failed("the ring buffer", errno);
  impl.lister = bpf_program__attach_iter(skeleton->progs.list_threads, nullptr);
  if (impl.lister == nullptr) return Failed("the list of threads", errno);
  return programs;
}

absl::Status SamplePrograms::Start(int64_t period_ns) {
  bpf_program* on_waker = impl_->skeleton->progs.on_waker;
  if (bpf_program__autoload(on_waker)) {
    bpf_link* link = bpf_program__attach(on_waker);
    if (link == nullptr) return Failed("threads that wake others", errno);
    impl_->links.push_back(link);
  }
  if (period_ns == 0) return absl::OkStatus();
  perf_event_attr attributes{};
  attributes.size = sizeof(attributes);
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.config = PERF_COUNT_SW_CPU_CLOCK;
  attributes.sample_period = static_cast<uint64_t>(period_ns);
  const int cpus = libbpf_num_possible_cpus();
  int error = 0;
  bool is_open = false;
  for (int cpu = 0; cpu < cpus; ++cpu) {
    UniqueFd fd(static_cast<int>(
        syscall(SYS_perf_event_open, &attributes, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC)));
    if (fd.get() < 0) {
      error = errno;  // ENODEV: this CPU is off
      continue;
    }
    bpf_link* link = bpf_program__attach_perf_event(impl_->skeleton->progs.on_sample, fd.get());
    if (link == nullptr) return Failed("the clock of a CPU", errno);
    // The link owns the descriptor from here on.
    (void)fd.Release();
    impl_->links.push_back(link);
    is_open = true;
  }
  return is_open ? absl::OkStatus() : Failed("the clock of a CPU", error);
}

void SamplePrograms::Stop() { impl_->Detach(); }

absl::Status SamplePrograms::AddProcess(Pid pid, const abi::pt_sampled_process& process) {
  const uint32_t key = Raw(pid);
  if (bpf_map_update_elem(bpf_map__fd(impl_->skeleton->maps.sampled), &key, &process, BPF_ANY) !=
      0) {
    return Fail(ExitCode::kHostUnfit, "too many sampled processes: " + ErrnoText(errno));
  }
  return absl::OkStatus();
}

void SamplePrograms::RemoveProcess(Pid pid) {
  const uint32_t key = Raw(pid);
  bpf_map_delete_elem(bpf_map__fd(impl_->skeleton->maps.sampled), &key);
}

void SamplePrograms::Drain(const OnSample& on_sample) {
  (void)impl_->ring.Take([&on_sample](std::span<const std::byte> record) {
    if (record.size() < PT_RAW_SAMPLE_HEAD_BYTES) return;
    on_sample(*reinterpret_cast<const abi::pt_raw_sample*>(record.data()));
  });
}

absl::StatusOr<std::vector<abi::pt_thread_state>> SamplePrograms::ListThreads() const {
  const UniqueFd fd(bpf_iter_create(bpf_link__fd(impl_->lister)));
  if (fd.get() < 0) return Failed("the list of threads", errno);
  std::string bytes;
  std::array<char, kReadBytes> part;
  while (true) {
    const ssize_t got = read(fd.get(), part.data(), part.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return Failed("the list of threads", errno);
    if (got == 0) break;
    bytes.append(part.data(), static_cast<size_t>(got));
  }
  std::vector<abi::pt_thread_state> threads(bytes.size() / sizeof(abi::pt_thread_state));
  std::memcpy(threads.data(), bytes.data(), threads.size() * sizeof(abi::pt_thread_state));
  return threads;
}

uint64_t SamplePrograms::lost() const { return impl_->skeleton->bss->samples_lost; }

}  // namespace proftrace
