#include "userspace/capture/kernel/system_programs.h"
#include "userspace/capture/kernel/load_messages.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <mutex>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bpf/abi/system_records.h"
#include "symbols/process/process_maps.h"
#include "system_activity.skel.h"
#include "userspace/base/byte_view.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/unique_fd.h"
#include "userspace/capture/kernel/kernel_types.h"
#include "userspace/capture/kernel/mapped_ring.h"
#include "userspace/capture/kernel/pid_namespace.h"
#include "userspace/capture/kernel/system_facts.h"
#include "userspace/model/system_calls.h"

namespace proftrace {
namespace {

constexpr uint32_t kMostThreads = 32768;
// The number of arguments of the tracepoint io_uring_complete, with the probe's context, since
// Linux 6.11.
constexpr int kShortCompletion = 4;

// The values of the map `watched` (bpf/kernel/system.bpf.h).
constexpr uint8_t kWatched = 1;
constexpr uint8_t kWatchedFromExec = 2;

constexpr size_t kMostFunctionBytes = 256;

// A value of the map `restarted_calls`.
struct RestartedEntry {
  uint32_t pid;
  uint32_t tid;
  uint32_t abi;
  uint32_t call;
};

absl::Status NotRecorded(const std::string& what, int error) {
  const ExitCode code =
      error == EPERM || error == EACCES ? ExitCode::kNotPermitted : ExitCode::kHostUnfit;
  return Fail(code, "cannot record system activity: " + what + ": " + ErrnoText(error));
}

// Returns how many arguments a tracepoint of this kernel has; 0 where there is no such tracepoint.
int ArgumentsOf(const btf* types, const char* tracepoint) {
  const std::string name = std::string("btf_trace_") + tracepoint;
  const int id = btf__find_by_name_kind(types, name.c_str(), BTF_KIND_TYPEDEF);
  if (id < 0) return 0;
  const btf_type* type = btf__type_by_id(types, static_cast<uint32_t>(id));
  while (type != nullptr && (btf_is_typedef(type) || btf_is_ptr(type))) {
    type = btf__type_by_id(types, type->type);
  }
  return type != nullptr && btf_is_func_proto(type) ? btf_vlen(type) : 0;
}

}  // namespace

struct SystemPrograms::Impl {
  struct Deleter {
    void operator()(system_activity_bpf* skeleton) const { system_activity_bpf__destroy(skeleton); }
  };
  std::unique_ptr<system_activity_bpf, Deleter> skeleton;
  MappedRing ring;
  bpf_link* begin_lister = nullptr;
  bpf_link* open_lister = nullptr;
  std::vector<bpf_link*> links;
  std::vector<Pid> awaited;
  std::mutex mutex;  // guards iterated_tgid

  void Detach() {
    for (bpf_link* link : links) bpf_link__destroy(link);
    links.clear();
  }

  ~Impl() {
    Detach();
    bpf_link__destroy(begin_lister);
    bpf_link__destroy(open_lister);
  }

  absl::Status ForgetThreads() const {
    const int others = bpf_map__fd(skeleton->maps.other_threads);
    uint32_t tid = 0;
    while (bpf_map_get_next_key(others, nullptr, &tid) == 0) {
      if (bpf_map_delete_elem(others, &tid) != 0) break;
    }
    const bpf_map* map = skeleton->maps.system_threads;
    uint32_t count = bpf_map__max_entries(map);
    std::vector<uint32_t> places(count);
    std::iota(places.begin(), places.end(), 0);
    // libbpf before 0.6 takes no pointer to const.
    std::vector<std::byte> nothing(size_t{count} * bpf_map__value_size(map));
    if (bpf_map_update_batch(bpf_map__fd(map), places.data(), nothing.data(), &count, nullptr) !=
        0) {
      return NotRecorded("the list of threads", errno);
    }
    return absl::OkStatus();
  }

  // Tells the programs which system calls are continued by threads that were in restart_syscall
  // when they were found.
  void TellRestartedCalls() const {
    const int map = bpf_map__fd(skeleton->maps.restarted_calls);
    uint32_t tid = 0;
    for (bool has = bpf_map_get_next_key(map, nullptr, &tid) == 0; has;
         has = bpf_map_get_next_key(map, &tid, &tid) == 0) {
      RestartedEntry entry{};
      if (bpf_map_lookup_elem(map, &tid, &entry) != 0 || entry.call != 0) continue;
      const std::string function = ReadSmallFile(
          "/proc/" + std::to_string(entry.pid) + "/task/" + std::to_string(entry.tid) + "/wchan",
          kMostFunctionBytes);
      entry.call = RestartedCall(static_cast<SystemAbi>(entry.abi), function).value_or(0);
      if (entry.call != 0) (void)bpf_map_update_elem(map, &tid, &entry, BPF_EXIST);
    }
  }

  // Tells the programs which of the process's threads wait for a lock of Python. Only threads that
  // were waiting for something like a semaphore when they were found are looked at.
  void TellBegunWaits(Pid pid, const PythonReading& python) const {
    const int map = bpf_map__fd(skeleton->maps.begun_waits);
    std::vector<uint32_t> tids;
    std::vector<abi::pt_begun_wait> waits;
    uint32_t tid = 0;
    for (bool has = bpf_map_get_next_key(map, nullptr, &tid) == 0; has;
         has = bpf_map_get_next_key(map, &tid, &tid) == 0) {
      abi::pt_begun_wait wait{};
      if (bpf_map_lookup_elem(map, &tid, &wait) != 0 || wait.pid != Raw(pid)) continue;
      tids.push_back(tid);
      waits.push_back(wait);
    }
    const std::vector<abi::pt_python_lock> locks = FindPythonLocks(pid, python, waits);
    for (size_t i = 0; i < locks.size(); ++i) {
      if (locks[i] == abi::PT_PYTHON_NO_LOCK) continue;
      waits[i].lock = locks[i];
      (void)bpf_map_update_elem(map, &tids[i], &waits[i], BPF_EXIST);
    }
  }

  // Runs an iterator over all threads to its end.
  static absl::Status Iterate(bpf_link* iterator) {
    const UniqueFd fd(bpf_iter_create(bpf_link__fd(iterator)));
    if (fd.get() < 0) return NotRecorded("the list of threads", errno);
    std::array<char, 4096> nothing;
    while (true) {
      const ssize_t got = read(fd.get(), nothing.data(), nothing.size());
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (got < 0) return NotRecorded("the list of threads", errno);
      if (got == 0) return absl::OkStatus();
    }
  }
};

SystemPrograms::SystemPrograms() : impl_(std::make_unique<Impl>()) {}
SystemPrograms::~SystemPrograms() = default;

absl::StatusOr<std::unique_ptr<SystemPrograms>> SystemPrograms::Load(const SystemOptions& options) {
  const SystemActivities& activities = options.activities;
  std::unique_ptr<SystemPrograms> programs(new SystemPrograms);
  Impl& impl = *programs->impl_;
  impl.awaited = options.awaited;
  programs->wants_python_ = activities.sched;
  impl.skeleton.reset(system_activity_bpf__open());
  if (impl.skeleton == nullptr) return NotRecorded("the BPF programs", errno);
  system_activity_bpf* skeleton = impl.skeleton.get();
  skeleton->rodata->config_sched = activities.sched;
  skeleton->rodata->config_faults = activities.faults;
  skeleton->rodata->config_children = options.follow_children;
  SetRingBytes(skeleton, options.ring_bytes);
  bpf_map__set_max_entries(skeleton->maps.other_threads, kMostThreads);

  const auto& all = skeleton->progs;
  const bool has_calls = activities.calls || activities.io;
  for (bpf_program* program : {all.on_sys_enter, all.on_sys_exit}) {
    bpf_program__set_autoload(program, has_calls);
  }
  for (bpf_program* program : {all.on_system_switch, all.on_system_waking, all.on_system_wakeup,
                               all.on_system_wakeup_new}) {
    bpf_program__set_autoload(program, activities.sched);
  }
  for (bpf_program* program :
       {all.on_fault_user, all.on_fault_kernel, all.on_minor_fault, all.on_major_fault}) {
    const bool is_minor = program == all.on_minor_fault;
    bpf_program__set_autoload(program, activities.faults || (activities.io && !is_minor));
  }
  const auto types = LoadKernelTypes();
  const int completion = types == nullptr ? 0 : ArgumentsOf(types.get(), "io_uring_complete");
  const bool has_requests =
      completion > 0 && ArgumentsOf(types.get(), "io_uring_submit_req") > 0 && activities.io;
  skeleton->rodata->config_casts =
      types != nullptr && btf__find_by_name_kind(types.get(), "bpf_rdonly_cast", BTF_KIND_FUNC) > 0;
  bpf_program__set_autoload(all.on_request, has_requests);
  bpf_program__set_autoload(all.on_request_done, has_requests && completion <= kShortCompletion);
  bpf_program__set_autoload(all.on_request_done_old, has_requests && completion > kShortCompletion);
  if (activities.io && !has_requests) {
    programs->gaps_.push_back(
        {"io_uring", "this kernel does not tell of its requests; Linux 6.3 or later is needed"});
  }

  const LoadMessages messages;
  if (const int error = LoadPrograms([skeleton] { return system_activity_bpf__load(skeleton); });
      error != 0) {
    return messages.Refusal("cannot record system activity, which needs Linux 5.17 or later",
                            -error);
  }
  absl::Status status = FindPidNamespace(bpf_program__fd(all.read_pidns_level));
  if (!status.ok()) return status;
  std::vector<abi::pt_system_call> facts = SystemCallFactsForKernel();
  for (abi::pt_system_call& call : facts) {
    const bool is_io = (call.flags & abi::PT_SYSTEM_CALL_IS_IO) != 0;
    call.is_recorded = activities.calls || (activities.io && is_io) ? 1 : 0;
  }
  for (uint32_t key = 0; key < facts.size(); ++key) {
    if (bpf_map_update_elem(bpf_map__fd(skeleton->maps.system_calls), &key, &facts[key], BPF_ANY) !=
        0) {
      return NotRecorded("the table of system calls", errno);
    }
  }
  if (!impl.ring.Open(skeleton)) return NotRecorded("the ring", errno);
  const LoopTimes plain = TimeLoops(has_calls, activities.faults);
  if (status = programs->Attach(activities); !status.ok()) return status;
  if (status = programs->MeasureCost(plain); !status.ok()) return status;
  return programs;
}

absl::Status SystemPrograms::Attach(const SystemActivities& activities) {
  Impl& impl = *impl_;
  const auto& all = impl.skeleton->progs;
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, impl.skeleton->obj) {
    const bool is_of_another_kind =
        program == all.find_begun_threads || program == all.tell_open_threads ||
        program == all.on_minor_fault || program == all.on_major_fault ||
        program == all.read_pidns_level;
    if (!bpf_program__autoload(program) || is_of_another_kind) continue;
    bpf_link* link = bpf_program__attach(program);
    if (link == nullptr) return NotRecorded(bpf_program__section_name(program), errno);
    impl.links.push_back(link);
  }
  if (activities.faults || activities.io) {
    if (absl::Status status = OpenFaultCounters(); !status.ok()) return status;
  }
  impl.begin_lister = bpf_program__attach_iter(all.find_begun_threads, nullptr);
  impl.open_lister = bpf_program__attach_iter(all.tell_open_threads, nullptr);
  if (impl.begin_lister == nullptr || impl.open_lister == nullptr) {
    return NotRecorded("the list of threads", errno);
  }
  return absl::OkStatus();
}

absl::Status SystemPrograms::MeasureCost(const LoopTimes& plain) {
  if (!plain.call_ns && !plain.fault_ns) return absl::OkStatus();
  const auto own = static_cast<uint32_t>(getpid());
  absl::Status status = AddProcess(Pid{own});
  if (!status.ok()) return status;
  const LoopTimes recorded = TimeLoops(plain.call_ns.has_value(), plain.fault_ns.has_value());
  // The traces of the measurement are removed.
  (void)bpf_map_delete_elem(bpf_map__fd(impl_->skeleton->maps.watched), &own);
  status = impl_->ForgetThreads();
  if (!status.ok()) return status;
  std::vector<uint64_t> fault_ns;
  (void)impl_->ring.Take([&fault_ns](std::span<const std::byte> bytes) {
    const auto record = ByteView(bytes).Get<abi::pt_fault_record>(0);
    if (record && record->head.kind == abi::PT_FAULT) fault_ns.push_back(record->duration_ns);
  });
  impl_->skeleton->bss->system_lost = 0;
  cost_ = CostOfRecords(plain, recorded, std::move(fault_ns));
  return absl::OkStatus();
}

absl::Status SystemPrograms::OpenFaultCounters() {
  const auto& all = impl_->skeleton->progs;
  const int cpus = libbpf_num_possible_cpus();
  for (const auto& [program, counter] :
       {std::pair(all.on_minor_fault, PERF_COUNT_SW_PAGE_FAULTS_MIN),
        std::pair(all.on_major_fault, PERF_COUNT_SW_PAGE_FAULTS_MAJ)}) {
    if (!bpf_program__autoload(program)) continue;
    perf_event_attr attributes{};
    attributes.size = sizeof(attributes);
    attributes.type = PERF_TYPE_SOFTWARE;
    attributes.config = counter;
    attributes.sample_period = 1;
    attributes.sample_type = PERF_SAMPLE_ADDR;
    int error = ENODEV;
    bool is_open = false;
    for (int cpu = 0; cpu < cpus; ++cpu) {
      UniqueFd fd(static_cast<int>(
          syscall(SYS_perf_event_open, &attributes, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC)));
      if (fd.get() < 0) {
        error = errno;  // ENODEV: this CPU is off
        continue;
      }
      bpf_link* link = bpf_program__attach_perf_event(program, fd.get());
      if (link == nullptr) return NotRecorded("page faults of a CPU", errno);
      (void)fd.Release();  // the link owns it from here on
      impl_->links.push_back(link);
      is_open = true;
    }
    if (!is_open) return NotRecorded("page faults of a CPU", error);
  }
  return absl::OkStatus();
}

absl::Status SystemPrograms::AddProcess(Pid pid) { return AddProcesses({&pid, 1}); }

absl::Status SystemPrograms::AddProcesses(std::span<const Pid> pids) {
  const int watched = bpf_map__fd(impl_->skeleton->maps.watched);
  for (const Pid pid : pids) {
    const uint32_t key = Raw(pid);
    const bool is_awaited =
        std::find(impl_->awaited.begin(), impl_->awaited.end(), pid) != impl_->awaited.end();
    const uint8_t watch = is_awaited ? kWatchedFromExec : kWatched;
    if (bpf_map_update_elem(watched, &key, &watch, BPF_ANY) != 0) {
      return Fail(ExitCode::kHostUnfit, "too many recorded processes: " + ErrnoText(errno));
    }
  }
  const std::lock_guard lock(impl_->mutex);
  // 0 stands for all watched processes.
  impl_->skeleton->bss->iterated_tgid = pids.size() == 1 ? Raw(pids.front()) : 0;
  absl::Status status = Impl::Iterate(impl_->begin_lister);
  impl_->TellRestartedCalls();
  return status;
}

void SystemPrograms::AddPython(Pid pid, const PythonReading& python) {
  if (!wants_python_) return;
  const uint32_t key = Raw(pid);
  const abi::pt_waiting_python entry{python.gil, python.runtime.layout.stack};
  // Where the map has no room for the process, all its waits count as waits for events.
  (void)bpf_map_update_elem(bpf_map__fd(impl_->skeleton->maps.waiting_pythons), &key, &entry,
                            BPF_ANY);
  impl_->TellBegunWaits(pid, python);
}

void SystemPrograms::Drain(const RecordCallback& callback) { (void)impl_->ring.Take(callback); }

void SystemPrograms::TellOpen() { (void)Impl::Iterate(impl_->open_lister); }

void SystemPrograms::Stop() {
  impl_->skeleton->bss->system_stopped = 1;
  TellOpen();
  impl_->Detach();
}

uint64_t SystemPrograms::lost() const {
  return impl_->skeleton->bss->system_lost + impl_->skeleton->bss->system_threads_lost;
}

}  // namespace proftrace
