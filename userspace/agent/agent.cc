// Defines the library's entry points, and the thread that they start.
#include <errno.h>

#include "bpf/abi/gpu_records.h"
#include "userspace/agent/session.h"
#include "userspace/agent/system.h"

namespace proftrace::agent {
namespace {

constexpr size_t kSharedBytes = PT_AGENT_PAGE_BYTES + PT_AGENT_RING_BYTES;
// The time between two flushes, and so the longest delay of activity that fills no buffer. CUPTI's
// own worker hands over only full buffers, and Kineto flushes only when it stops.
constexpr uint64_t kFlushPeriodNs = 200'000'000;
constexpr uint64_t kDriverPollNs = 2'000'000;  // while the process initializes CUDA
// How long the exit of a process waits for the last records.
constexpr uint64_t kExitLimitNs = 2'000'000'000;
constexpr uint64_t kExitPollNs = 10'000'000;

enum Run : uint32_t { kIdle = 0, kBusy = 1 };

// The state that outlives a recording. CUPTI's callbacks may come at any time, also in a child of a
// fork, because calls of CUDA count as activity there, too, although they fail.
struct Shared {
  uint32_t run;
  int pid;  // the process that `run` is about
  abi::pt_agent_page* page;
  int fd;
  void* names;
  bool torch_profiler_is_on;
  bool is_exiting;
  BufferPool pool;
};
Shared g_shared;

bool IsThisProcess() { return __atomic_load_n(&g_shared.pid, __ATOMIC_ACQUIRE) == ProcessId(); }

void OnBufferRequested(uint8_t** buffer, size_t* bytes, size_t* most_records) {
  *buffer = g_shared.pool.Request();
  *bytes = *buffer == nullptr ? 0 : BufferPool::kBufferBytes;
  *most_records = 0;
}

void OnBufferCompleted(void* /*context*/, uint32_t /*stream*/, uint8_t* buffer, size_t /*bytes*/,
                       size_t valid_bytes) {
  if (!IsThisProcess()) return g_shared.pool.Discard(buffer);
  g_shared.pool.Complete(buffer, valid_bytes);
  // The agent's thread waits on `command`, by which the loader tells it to stop. If the page is
  // gone, this wakes nobody.
  const abi::pt_agent_page* page = __atomic_load_n(&g_shared.page, __ATOMIC_ACQUIRE);
  if (page != nullptr) WakeAll(&page->command);
}

void SetState(abi::pt_agent_page* page, abi::pt_agent_state state) {
  __atomic_store_n(&page->state, static_cast<uint32_t>(state), __ATOMIC_RELEASE);
  WakeAll(&page->state);
}

void Tell(abi::pt_agent_page* page, const Failure& failure) {
  page->failure = failure.failure;
  page->cupti_result = static_cast<uint32_t>(failure.result);
  Text text = TextIn(page->message, sizeof(page->message));
  Append(&text, failure.message);
}

void Say(Failure* failure, abi::pt_agent_failure what, const char* message) {
  failure->failure = what;
  Text text = TextIn(failure->message, sizeof(failure->message));
  Append(&text, message);
}

// Whether the recording has to stop; sets `failure` to the reason if that is an error.
bool ShouldStop(const abi::pt_agent_page* page, Failure* failure) {
  if (__atomic_load_n(&page->command, __ATOMIC_ACQUIRE) == abi::PT_AGENT_STOP) return true;
  if (__atomic_load_n(&g_shared.is_exiting, __ATOMIC_ACQUIRE)) return true;
  const uint64_t heartbeat = __atomic_load_n(&page->heartbeat_ns, __ATOMIC_RELAXED);
  const uint64_t now = MonotonicNs();
  if (now <= heartbeat || now - heartbeat < PT_AGENT_HEARTBEAT_LIMIT_NS) return false;
  Say(failure, abi::PT_AGENT_ABANDONED, "proftrace has not looked for ten seconds");
  return true;
}

// Waits until the process has initialized CUDA. Returns false if there is no device, or if the
// recording has to stop first.
bool WaitForDriver(abi::pt_agent_page* page, const Driver& driver, Failure* failure) {
  for (;;) {
    switch (StateOf(driver)) {
      case DriverState::kReady:
        return true;
      case DriverState::kNoDevice:
        Say(failure, abi::PT_AGENT_NO_CUPTI, "the CUDA driver has no device for this process");
        return false;
      case DriverState::kNotInitialized:
        if (ShouldStop(page, failure)) return false;
        WaitOn(&page->command, abi::PT_AGENT_RUN, kDriverPollNs);
    }
  }
}

void* OpenLibraries(abi::pt_agent_page* page, Driver* driver, Failure* failure) {
  MappedLibraries mapped;
  if (!FindLibraries(&mapped) || !OpenDriver(mapped, driver)) {
    Say(failure, abi::PT_AGENT_NO_CUPTI,
        "this process has not loaded the CUDA driver (libcuda.so.1): it has not used a GPU");
    return nullptr;
  }
  if (!WaitForDriver(page, *driver, failure)) return nullptr;
  page->driver_version = driver->version;
  page->runtime_version = driver->runtime_version;
  char message[PT_AGENT_MESSAGE_BYTES];
  void* library = OpenCupti(mapped, *driver, message, sizeof(message));
  if (library == nullptr) Say(failure, abi::PT_AGENT_NO_CUPTI, message);
  return library;
}

void OnExit(void* unused);

void Record(abi::pt_agent_page* page, Failure* failure) {
  Driver driver;
  void* library = OpenLibraries(page, &driver, failure);
  if (library == nullptr) return;
  static bool is_opened = false;
  CallAtExitOnce(OnExit, &is_opened);
  if (g_shared.torch_profiler_is_on) {
    Say(failure, abi::PT_AGENT_TAKEN, "torch.profiler is recording in this process");
    return;
  }
  NameTable names(g_shared.names);
  names.Clear();
  auto* ring = reinterpret_cast<uint8_t*>(page) + PT_AGENT_PAGE_BYTES;
  Session session(page, RingWriter(page, ring, PT_AGENT_RING_BYTES), &g_shared.pool, names,
                  g_shared.pid);
  // Buffers that CUPTI has kept from an earlier recording do not belong to this one.
  for (BufferPool::Completed old = g_shared.pool.TakeCompleted(); old.buffer != nullptr;
       old = g_shared.pool.TakeCompleted()) {
    g_shared.pool.Recycle(old.buffer);
  }
  if (!session.Begin(library, driver, {OnBufferRequested, OnBufferCompleted}, failure)) return;
  static bool has_begun = false;
  CallAtExitOnce(OnExit, &has_begun);
  Tell(page, *failure);
  *failure = Failure{};
  SetState(page, abi::PT_AGENT_RUNNING);
  uint64_t next_flush = MonotonicNs() + kFlushPeriodNs;
  while (!ShouldStop(page, failure)) {
    session.Read();
    const uint64_t now = MonotonicNs();
    if (now >= next_flush) {
      if (!session.Flush()) break;
      next_flush = MonotonicNs() + kFlushPeriodNs;
    } else {
      WaitOn(&page->command, abi::PT_AGENT_RUN, next_flush - now);
    }
  }
  SetState(page, abi::PT_AGENT_FLUSHING);
  Failure at_end;
  if (!session.End(&at_end) && failure->failure == abi::PT_AGENT_NO_FAILURE) *failure = at_end;
}

// Shows a failure in the page until the loader says stop, but no longer than the loader lives.
void ShowFailure(abi::pt_agent_page* page, const Failure& failure) {
  Tell(page, failure);
  SetState(page, abi::PT_AGENT_FAILED);
  Failure gone;
  while (!ShouldStop(page, &gone)) WaitOn(&page->command, abi::PT_AGENT_RUN, kFlushPeriodNs);
}

void* RunAgent(void* /*unused*/) {
  abi::pt_agent_page* page = g_shared.page;
  const int fd = g_shared.fd;
  Failure failure;
  Record(page, &failure);
  const bool has_failed = failure.failure != abi::PT_AGENT_NO_FAILURE;
  if (has_failed) ShowFailure(page, failure);
  g_shared.pool.GiveBackUnused();
  GiveBack(g_shared.names, NameTable::kBytes);
  __atomic_store_n(&g_shared.page, static_cast<abi::pt_agent_page*>(nullptr), __ATOMIC_RELEASE);
  Close(fd);
  __atomic_store_n(&g_shared.run, static_cast<uint32_t>(kIdle), __ATOMIC_RELEASE);
  if (!has_failed) SetState(page, abi::PT_AGENT_STOPPED);
  Unmap(page, kSharedBytes);
  return nullptr;
}

// Waits for the last records when the process exits. CUPTI is not called any more once its own and
// the driver's exit functions run. Functions that were registered last run first, so this one is
// registered again when CUPTI was loaded and when CUPTI has begun. A flush that hangs delays the
// exit by kExitLimitNs at most.
void OnExit(void* /*unused*/) {
  if (!IsThisProcess()) return;
  __atomic_store_n(&g_shared.is_exiting, true, __ATOMIC_RELEASE);
  const uint64_t limit = MonotonicNs() + kExitLimitNs;
  while (__atomic_load_n(&g_shared.run, __ATOMIC_ACQUIRE) == kBusy && MonotonicNs() < limit) {
    // The page may go at any time, so nothing is written to it; the kernel only wakes its waiters.
    const abi::pt_agent_page* page = __atomic_load_n(&g_shared.page, __ATOMIC_ACQUIRE);
    if (page != nullptr) WakeAll(&page->command);
    WaitOn(&g_shared.run, kBusy, kExitPollNs);
  }
}

// Resets the state in a child of a fork, which has neither the thread nor the shared memory, only
// the descriptor.
void OnFork() {
  if (g_shared.run == kBusy && g_shared.page != nullptr) Close(g_shared.fd);
  g_shared.run = kIdle;
  g_shared.pid = 0;
  g_shared.page = nullptr;
}

// Whether this thread is profiled: torch::profiler::impl::profilerEnabled(), which every PyTorch
// exports since 1.12.
bool TorchProfilerIsOn() {
  void* library = OpenLibrary("libtorch_cpu.so", false);
  if (library == nullptr) return false;
  const auto is_on = reinterpret_cast<bool (*)()>(
      FindFunction(library, "_ZN5torch8profiler4impl15profilerEnabledEv"));
  return is_on != nullptr && is_on();
}

int MakePage() {
  const int fd = MakeMemoryFile(PT_AGENT_MEMORY_NAME, kSharedBytes);
  if (fd < 0) return fd;
  auto* page = static_cast<abi::pt_agent_page*>(MapShared(fd, kSharedBytes));
  if (page == nullptr) {
    Close(fd);
    return -ENOMEM;
  }
  page->version = PT_AGENT_VERSION;
  page->page_bytes = PT_AGENT_PAGE_BYTES;
  page->ring_bytes = PT_AGENT_RING_BYTES;
  page->pid = static_cast<uint32_t>(g_shared.pid);
  page->memory_fd = static_cast<uint32_t>(fd);
  page->heartbeat_ns = MonotonicNs();
  __atomic_store_n(&page->magic, PT_AGENT_MAGIC, __ATOMIC_RELEASE);
  g_shared.fd = fd;
  __atomic_store_n(&g_shared.page, page, __ATOMIC_RELEASE);
  return 0;
}

int Prepare() {
  static bool is_registered = false;
  if (!is_registered) CallInChildren(OnFork);
  CallAtExitOnce(OnExit, &is_registered);
  __atomic_store_n(&g_shared.pid, ProcessId(), __ATOMIC_RELEASE);
  g_shared.torch_profiler_is_on = TorchProfilerIsOn();
  if (!g_shared.pool.Open()) return -ENOMEM;
  if (g_shared.names == nullptr) g_shared.names = MapPrivate(NameTable::kBytes);
  if (g_shared.names == nullptr) return -ENOMEM;
  const int error = MakePage();
  if (error != 0) return error;
  const int thread_error = StartThread("proftrace-gpu", RunAgent, nullptr);
  if (thread_error != 0) {
    abi::pt_agent_page* page = g_shared.page;
    __atomic_store_n(&g_shared.page, static_cast<abi::pt_agent_page*>(nullptr), __ATOMIC_RELEASE);
    Unmap(page, kSharedBytes);
    Close(g_shared.fd);
  }
  return thread_error;
}

int Start() {
  uint32_t idle = kIdle;
  if (!__atomic_compare_exchange_n(&g_shared.run, &idle, static_cast<uint32_t>(kBusy), false,
                                   __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    return -EALREADY;
  }
  const int error = Prepare();
  if (error != 0) __atomic_store_n(&g_shared.run, static_cast<uint32_t>(kIdle), __ATOMIC_RELEASE);
  return error;
}

// Starts CUPTI's own NVTX tool if a recording runs, and returns that tool's answer; otherwise
// returns 0. NVTX takes one tool, when the process first marks a range. Without a device CUPTI must
// not be called.
int InitializeNvtx(void* export_table, const char* initializer) {
  if (!IsThisProcess() || __atomic_load_n(&g_shared.run, __ATOMIC_ACQUIRE) != kBusy) return 0;
  MappedLibraries mapped;
  Driver driver;
  if (!FindLibraries(&mapped) || !OpenDriver(mapped, &driver)) return 0;
  if (StateOf(driver) != DriverState::kReady) return 0;
  char message[PT_AGENT_MESSAGE_BYTES];
  void* library = OpenCupti(mapped, driver, message, sizeof(message));
  if (library == nullptr) return 0;
  const auto initialize = reinterpret_cast<int (*)(void*)>(FindFunction(library, initializer));
  return initialize == nullptr ? 0 : initialize(export_table);
}

}  // namespace
}  // namespace proftrace::agent

extern "C" {

// Starts to record this process's GPU activity. Returns 0 or a negative errno value, at once; the
// page tells how the recording goes on (bpf/abi/gpu_records.h). -EALREADY: a recording runs.
__attribute__((visibility("default"))) int proftrace_agent_start(void);
int proftrace_agent_start(void) { return proftrace::agent::Start(); }

// Is called by the CUDA driver of a process with CUDA_INJECTION64_PATH set, and starts to record;
// the driver takes 1 for success.
__attribute__((visibility("default"))) int InitializeInjection(void);
int InitializeInjection(void) { return proftrace::agent::Start() == 0 ? 1 : 0; }

// Both functions are called by NVTX in a process with NVTX_INJECTION64_PATH set: this one by NVTX
// 3, the next one by the older library. CUPTI's own function of that name does the work. Return 1
// where NVTX tells CUPTI of ranges, and 0 where it tells nobody.
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(void* export_table);
int InitializeInjectionNvtx2(void* export_table) {
  return proftrace::agent::InitializeNvtx(export_table, "InitializeInjectionNvtx2");
}
__attribute__((visibility("default"))) int InitializeInjectionNvtx(void* export_table);
int InitializeInjectionNvtx(void* export_table) {
  return proftrace::agent::InitializeNvtx(export_table, "InitializeInjectionNvtx");
}
}
