#include "userspace/capture/kernel/bpf_programs.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "bpf/abi/demotions.h"
#include "bpf/abi/records.h"
#include "proftrace.skel.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/unique_fd.h"
#include "userspace/capture/kernel/address_key.h"
#include "userspace/capture/kernel/cookie_table.h"
#include "userspace/capture/kernel/kernel_types.h"
#include "userspace/capture/kernel/load_messages.h"
#include "userspace/capture/kernel/mapped_ring.h"
#include "userspace/capture/kernel/pid_namespace.h"
#include "userspace/capture/kernel/probe_cost.h"
#include "userspace/capture/kernel/trace_event.h"
#include "userspace/capture/targets/process_watch.h"
#include "userspace/sandbox/rights.h"

namespace proftrace {
namespace {

constexpr uint32_t kMostNumbers =
    UINT16_MAX;  // of places, of signatures and so on: a cookie has 16 bits for such a number
// How many operators without a function of their own all processes may have. One PyTorch has 500.
constexpr uint32_t kMostOperatorSignatures = 1 << 19;
// How many probes may be known by their addresses, in all processes. One PyTorch has 6500.
constexpr uint32_t kMostAddresses = 1 << 19;
// How many threads' stacks are kept at once (the least recently used one gives way), and how many
// code objects and modules are known: a mixture of experts has 30 000 modules.
constexpr uint32_t kMostPythonThreads = 2048;
constexpr uint32_t kMostPythonCodes = 1 << 16;
constexpr uint32_t kMostPythonModules = 1 << 18;
// How many threads may run while links are exchanged. For further threads a hit may be recorded
// twice.
constexpr uint32_t kMostHandedThreads = 16384;
constexpr bpf_attach_type kUprobeMulti = static_cast<bpf_attach_type>(48);

// Whether the programs of probes can read the cookie that their link was made with. The programs
// need the cookie, because nothing else tells them which site was hit.
bool HasAttachCookies() {
  constexpr char kLicence[] = "Dual BSD/GPL";
  constexpr bpf_insn kProgram[] = {
      {BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_get_attach_cookie},
      {BPF_JMP | BPF_EXIT, 0, 0, 0, 0},
  };
  bpf_attr attributes{};
  attributes.prog_type = BPF_PROG_TYPE_KPROBE;
  attributes.insn_cnt = static_cast<uint32_t>(std::size(kProgram));
  attributes.insns = reinterpret_cast<uint64_t>(kProgram);
  attributes.license = reinterpret_cast<uint64_t>(kLicence);
  const UniqueFd program(
      static_cast<int>(syscall(SYS_bpf, BPF_PROG_LOAD, &attributes, sizeof(attributes))));
  return program.get() >= 0;
}

// Before 6.1 the kernel warns of a tracing program's map that is not allocated at once (verifier.c,
// check_map_prog_compatibility), which taints the kernel, or stops it where panic_on_warn is set.
bool WarnsOfGrowingMaps() {
  utsname name{};
  uname(&name);
  int major = 0;
  int minor = 0;
  return std::sscanf(name.release, "%d.%d", &major, &minor) == 2 &&
         (major < 6 || (major == 6 && minor < 1));
}

absl::Status LoadError(int error, const LoadMessages& messages) {
  if (messages.IsNotPermitted(error)) {
    return Fail(ExitCode::kNotPermitted,
                "the kernel does not permit this user to load BPF programs; " + HowToGetRights());
  }
  if (error == EMFILE) {
    return Fail(ExitCode::kHostUnfit,
                "too few files may be open for the BPF programs: raise the limit (ulimit -n 1024)");
  }
  if (!HasAttachCookies()) {
    return Fail(ExitCode::kHostUnfit,
                "the kernel gives no cookies to programs of probes: proftrace needs Linux 5.15 or "
                "later for --tier bpf");
  }
  return Fail(ExitCode::kHostUnfit,
              "the kernel does not take the BPF programs: " + ErrnoText(error) + messages.Text() +
                  "; 'proftrace doctor' says more");
}

}  // namespace

struct BpfPrograms::Impl {
  std::shared_ptr<LinkGuard> guard;
  struct Deleter {
    void operator()(proftrace_bpf* skeleton) const { proftrace_bpf__destroy(skeleton); }
  };
  std::unique_ptr<proftrace_bpf, Deleter> skeleton;
  ProbeTables tables;
  MappedRing ring;
  std::vector<bpf_link*> links;
  bool empty_program = false;
  std::unique_ptr<ProcessWatch> watch;  // null: there are programs in the kernel
  uint32_t handovers = 0;
  // Entries of a map that cookies name by number, by their content.
  using Numbers = std::map<std::string, uint16_t>;
  std::mutex numbers_mutex;  // two threads attach to processes
  Numbers places;
  Numbers signatures;
  Numbers row_inputs;

  // Returns the number of the entry with this content, and adds the entry to `map` if it is new.
  // `map` is null where nothing is loaded.
  absl::StatusOr<uint16_t> Number(const bpf_map* map, std::string content, Numbers* numbers);

  ~Impl() {
    for (bpf_link* link : links) bpf_link__destroy(link);
  }
};

namespace {

// Raises the soft limit, because each process takes a few descriptors. A command that is started
// for the recording gets the limit as it was.
void AllowManyDescriptors() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

}  // namespace

BpfPrograms::BpfPrograms() : impl_(std::make_unique<Impl>()) {}
BpfPrograms::~BpfPrograms() = default;

std::unique_ptr<BpfPrograms> BpfPrograms::WithoutKernel(const BpfOptions& options) {
  std::unique_ptr<BpfPrograms> programs(new BpfPrograms);
  programs->impl_->watch = std::make_unique<ProcessWatch>(options.follow_children);
  programs->reads_inputs_ = options.record_shapes;  // jumps read them
  programs->wants_stacks_ = options.with_stack;
  programs->wants_scripts_ = options.with_modules;
  AllowManyDescriptors();
  return programs;
}

bool BpfPrograms::is_loaded() const { return impl_->watch == nullptr; }

bool BpfPrograms::are_links_for_all() const { return impl_->tables.cookies != nullptr; }

int64_t BpfPrograms::longest_unwatched_ns() const {
  return is_loaded() ? 0 : impl_->watch->longest_interval_ns();
}

int BpfPrograms::probe_program_fd() const {
  const auto& programs = impl_->skeleton->progs;
  return bpf_program__fd(impl_->empty_program ? programs.on_probe_empty : programs.on_probe);
}

absl::StatusOr<LinkSet> BpfPrograms::Attach(const ModulePlan& module, std::optional<Pid> pid,
                                            AttachReport* report) const {
  if (!is_loaded()) {
    for (const ProbePoint& point : module.points) {
      report->refused.push_back(RefusedPoint{module.name, point.file_offset, ENOSYS});
    }
    return LinkSet();
  }
  return AttachModule(api_, impl_->guard.get(), probe_program_fd(), impl_->tables, module, pid,
                      report);
}

absl::StatusOr<std::unique_ptr<BpfPrograms>> BpfPrograms::Load(const BpfOptions& options) {
  LoadMessages messages;
  // Kernels before 5.11 charge maps to the locked memory of the user.
  const rlimit unlimited{RLIM_INFINITY, RLIM_INFINITY};
  setrlimit(RLIMIT_MEMLOCK, &unlimited);

  std::unique_ptr<BpfPrograms> programs(new BpfPrograms);
  AllowManyDescriptors();  // also for the guard, which inherits the limit
  programs->impl_->guard = LinkGuard::Start();
  // A kernel without multi links refuses programs that use them, so the later forms are tried
  // there.
  struct Form {
    UprobeApi api;
    bool loops;  // with the programs that need bpf_loop
    bool for_all = false;
  };
  bool are_links_for_all = options.force_links_for_all;
  for (const auto& [api, loops, for_all] :
       {Form{UprobeApi::kMulti, true}, Form{UprobeApi::kMulti, true, true},
        Form{UprobeApi::kMulti, false}, Form{UprobeApi::kMulti, false, true},
        Form{UprobeApi::kTrace, true}, Form{UprobeApi::kPerf, true}, Form{UprobeApi::kTrace, false},
        Form{UprobeApi::kPerf, false}}) {
    const bool multi = api == UprobeApi::kMulti;
    if (api < options.first_api || (multi && for_all != are_links_for_all) ||
        (loops && !options.record_shapes && !options.with_stack) ||
        (api == UprobeApi::kTrace && !CanMakeTraceEvents())) {
      continue;
    }
    messages.Clear();
    const bool inputs = loops && options.record_shapes;
    const bool stacks = loops && options.with_stack;
    Impl& impl = *programs->impl_;
    impl.empty_program = options.empty_program;
    impl.ring.Close();
    impl.skeleton.reset(proftrace_bpf__open());
    if (impl.skeleton == nullptr) return LoadError(errno, messages);
    proftrace_bpf* skeleton = impl.skeleton.get();
    skeleton->rodata->config_follow_children = options.follow_children;
    if (for_all) {
      skeleton->rodata->config_cookies_in_table = true;
      bpf_map__set_max_entries(skeleton->maps.probe_cookies, CookieTable::kEntries);
    }
    if (api == UprobeApi::kTrace) {
      skeleton->rodata->config_cookies_by_address = true;
      bpf_map__set_max_entries(skeleton->maps.probe_addresses, kMostAddresses);
    }
    if (WarnsOfGrowingMaps()) {
      bpf_map* const grown[] = {skeleton->maps.value_places, skeleton->maps.row_inputs,
                                skeleton->maps.operator_signatures, skeleton->maps.probe_addresses};
      for (bpf_map* map : grown) bpf_map__set_map_flags(map, 0);
      if (!inputs) {
        bpf_map__set_max_entries(skeleton->maps.row_inputs, 1);
        bpf_map__set_max_entries(skeleton->maps.operator_signatures, 1);
      }
    }
    if (inputs) {
      // There are two buffers for each CPU, because a task may be preempted while it fills one.
      const auto buffers = static_cast<uint32_t>(2 * std::max(1, libbpf_num_possible_cpus()));
      skeleton->rodata->config_record_shapes = true;
      skeleton->rodata->config_input_buffers = buffers;
      bpf_map__set_max_entries(skeleton->maps.input_buffers, buffers);
      bpf_map__set_max_entries(skeleton->maps.signatures, kMostNumbers + 1);
      bpf_map__set_max_entries(skeleton->maps.operator_signatures, kMostOperatorSignatures);
    }
    if (stacks) {
      skeleton->rodata->config_with_stack = true;
      skeleton->rodata->config_with_modules = options.with_modules;
      skeleton->rodata->config_ends_elsewhere = options.beside_jumps;
      bpf_map__set_max_entries(skeleton->maps.python_threads, kMostPythonThreads);
      bpf_map__set_max_entries(skeleton->maps.python_codes, kMostPythonCodes);
      bpf_map__set_max_entries(skeleton->maps.python_modules, kMostPythonModules);
    }
    if (options.has_budget) {
      skeleton->rodata->config_has_budget = true;
      bpf_map__set_max_entries(skeleton->maps.demotions, PT_MOST_DEMOTIONS);
      bpf_map__set_max_entries(skeleton->maps.demoted_calls, PT_MOST_DEMOTIONS);
      bpf_map__set_max_entries(skeleton->maps.handed_hits, kMostHandedThreads);
    }
    SetRingBytes(skeleton, options.ring_bytes);
    if (options.loss_threads > 0) {
      bpf_map__set_max_entries(skeleton->maps.lost_by_thread, options.loss_threads);
    }
    if (multi) {
      bpf_program__set_expected_attach_type(skeleton->progs.on_probe, kUprobeMulti);
      bpf_program__set_expected_attach_type(skeleton->progs.on_probe_empty, kUprobeMulti);
    }
    const int error = -LoadPrograms([skeleton] { return proftrace_bpf__load(skeleton); });
    if (error != 0) {
      const bool may_go_without = api != UprobeApi::kPerf || loops;
      if (may_go_without && (loops ? error != EPERM : !messages.IsNotPermitted(error))) continue;
      return LoadError(error, messages);
    }
    if (!impl.ring.Open(skeleton)) {
      return Fail(ExitCode::kHostUnfit, "the ring buffer of the BPF programs: " + ErrnoText(errno));
    }
    programs->api_ = api;
    impl.tables = {};
    if (for_all) impl.tables.cookies = CookieTable::Make(bpf_map__fd(skeleton->maps.probe_cookies));
    if (api == UprobeApi::kTrace) {
      impl.tables.addresses_fd = bpf_map__fd(skeleton->maps.probe_addresses);
    }
    programs->reads_inputs_ = inputs;
    programs->wants_stacks_ = options.with_stack;
    programs->wants_scripts_ = options.with_modules;
    programs->reads_stacks_ = stacks;
    programs->has_budget_ = options.has_budget;
    absl::Status status = FindPidNamespace(bpf_program__fd(skeleton->progs.read_pidns_level));
    if (status.ok()) status = programs->MeasureCosts();
    if (status.ok() && multi && !for_all && !programs->are_all_threads_seen_) {
      are_links_for_all = true;
      continue;
    }
    if (status.ok()) break;
    if (api == UprobeApi::kPerf || ExitCodeOf(status) == ExitCode::kNotPermitted) return status;
  }
  return programs;
}

absl::StatusOr<double> BpfPrograms::MeasureHit(uint64_t* records) {
  const uint64_t ring_records =
      impl_->skeleton->bss->ring_bytes / (sizeof(abi::pt_record) + PT_RING_HEAD_BYTES);
  return MeasureProbeCost(
      static_cast<int>(ring_records / 2),
      [this](const ModulePlan& module) {
        AttachReport report;
        return Attach(module, Pid{static_cast<uint32_t>(getpid())}, &report);
      },
      // The loop's own records are dropped.
      [this, records] { *records += impl_->ring.Discard(); });
}

absl::Status BpfPrograms::MeasureCosts() {
  uint64_t records = 0;
  const absl::StatusOr<double> ns_per_hit = MeasureHit(&records);
  if (!ns_per_hit.ok()) return ns_per_hit.status();
  ns_per_hit_ = *ns_per_hit;
  are_all_threads_seen_ = records > 0 || impl_->empty_program;
  if (!has_budget_) return absl::OkStatus();
  // No other demotion has the number 0.
  const Pid self{static_cast<uint32_t>(getpid())};
  absl::Status status = Demote(self, kProbeCostSite, 0, abi::PT_DEMOTION_WHOLE);
  if (!status.ok()) return status;
  const absl::StatusOr<double> ns_per_count = MeasureHit(&records);
  ForgetDemotions(self);
  if (!ns_per_count.ok()) return ns_per_count.status();
  ns_per_count_ = std::min(ns_per_hit_, *ns_per_count);
  return absl::OkStatus();
}

absl::Status BpfPrograms::Demote(Pid pid, uint16_t site, uint32_t number, abi::pt_demotion state) {
  if (!is_loaded()) return absl::OkStatus();
  const abi::pt_demotion_key key{Raw(pid), site};
  auto* bss = impl_->skeleton->bss;
  bss->demotion_states[number % PT_MOST_DEMOTIONS] = static_cast<uint8_t>(state);
  const int fd = bpf_map__fd(impl_->skeleton->maps.demotions);
  if (bpf_map_update_elem(fd, &key, &number, BPF_ANY) != 0) {
    return Fail(ExitCode::kHostUnfit, "too many demoted operators: " + ErrnoText(errno));
  }
  bss->demoted_sites[site] = 1;
  return absl::OkStatus();
}

uint64_t BpfPrograms::CountedCalls(uint32_t number) const {
  if (!is_loaded()) return 0;
  uint64_t calls = 0;
  const int fd = bpf_map__fd(impl_->skeleton->maps.demoted_calls);
  return bpf_map_lookup_elem(fd, &number, &calls) == 0 ? calls : 0;
}

void BpfPrograms::ForgetDemotions(Pid pid) {
  const int fd = bpf_map__fd(impl_->skeleton->maps.demotions);
  std::vector<abi::pt_demotion_key> keys;
  abi::pt_demotion_key key{};
  const abi::pt_demotion_key* previous = nullptr;
  for (uint32_t i = 0; i < PT_MOST_DEMOTIONS; ++i) {
    if (bpf_map_get_next_key(fd, previous, &key) != 0) break;
    if (key.tgid == Raw(pid)) keys.push_back(key);
    previous = &key;
  }
  for (const abi::pt_demotion_key& mine : keys) bpf_map_delete_elem(fd, &mine);
}

void BpfPrograms::BeginHandover() {
  if (is_loaded()) impl_->skeleton->bss->handover = ++impl_->handovers;
}

void BpfPrograms::EndHandover() {
  if (is_loaded()) impl_->skeleton->bss->handover = 0;
}

absl::Status BpfPrograms::AttachProcessEvents() {
  if (!is_loaded()) return absl::OkStatus();
  const auto& programs = impl_->skeleton->progs;
  for (bpf_program* program :
       {programs.on_process_fork, programs.on_process_exec, programs.on_process_exit}) {
    bpf_link* link = bpf_program__attach(program);
    if (link == nullptr) {
      return Fail(ExitCode::kHostUnfit, std::string("cannot attach to the scheduler's ") +
                                            bpf_program__section_name(program) + ": " +
                                            ErrnoText(errno));
    }
    impl_->links.push_back(link);
  }
  return absl::OkStatus();
}

absl::Status BpfPrograms::TraceProcess(Pid pid) {
  if (!is_loaded()) return impl_->watch->Add(pid);
  const uint32_t key = Raw(pid);
  const uint8_t one = 1;
  if (bpf_map_update_elem(bpf_map__fd(impl_->skeleton->maps.traced), &key, &one, BPF_ANY) != 0) {
    return Fail(ExitCode::kHostUnfit, "too many traced processes: " + ErrnoText(errno));
  }
  return absl::OkStatus();
}

namespace {

absl::Status AddAddress(const bpf_map* map, Pid pid, uint64_t address, uint32_t value) {
  const AddressKey key{address, Raw(pid)};
  if (bpf_map_update_elem(bpf_map__fd(map), &key, &value, BPF_ANY) != 0) {
    return Fail(ExitCode::kHostUnfit, std::string("cannot fill the BPF map ") + bpf_map__name(map) +
                                          ": " + ErrnoText(errno));
  }
  return absl::OkStatus();
}

// Deletes a process's entries in a map by address.
void ForgetAddresses(const bpf_map* map, Pid pid) {
  const int fd = bpf_map__fd(map);
  std::vector<AddressKey> keys;
  AddressKey key{};
  const AddressKey* previous = nullptr;
  // The map may change meanwhile. Where a key was deleted, the kernel begins anew, so the loop is
  // bounded by the map's size.
  for (uint32_t i = 0; i < bpf_map__max_entries(map); ++i) {
    if (bpf_map_get_next_key(fd, previous, &key) != 0) break;
    if (key.tgid == Raw(pid)) keys.push_back(key);
    previous = &key;
  }
  for (const AddressKey& mine : keys) bpf_map_delete_elem(fd, &mine);
}

}  // namespace

void BpfPrograms::ForgetProcess(Pid pid) {
  if (!is_loaded()) return;
  ForgetDemotions(pid);
  ForgetAddresses(impl_->skeleton->maps.annotation_operators, pid);
  ForgetAddresses(impl_->skeleton->maps.node_vtables, pid);
  ForgetAddresses(impl_->skeleton->maps.operator_signatures, pid);
  const uint32_t key = Raw(pid);
  bpf_map_delete_elem(bpf_map__fd(impl_->skeleton->maps.autograd_layouts), &key);
  bpf_map_delete_elem(bpf_map__fd(impl_->skeleton->maps.python_layouts), &key);
  bpf_map_delete_elem(bpf_map__fd(impl_->skeleton->maps.script_layouts), &key);
  bpf_map_delete_elem(bpf_map__fd(impl_->skeleton->maps.node_signatures), &key);
  if (!reads_stacks_) return;
  ForgetAddresses(impl_->skeleton->maps.python_codes, pid);
  ForgetAddresses(impl_->skeleton->maps.python_modules, pid);
}

absl::Status BpfPrograms::AddAnnotationOperator(Pid pid, uint64_t operator_def, uint32_t step) {
  if (!is_loaded()) return absl::OkStatus();
  return AddAddress(impl_->skeleton->maps.annotation_operators, pid, operator_def, step);
}

absl::Status BpfPrograms::AddNodeVtable(Pid pid, uint64_t vtable, bool is_python) {
  if (!is_loaded()) return absl::OkStatus();
  return AddAddress(impl_->skeleton->maps.node_vtables, pid, vtable,
                    is_python ? abi::PT_NODE_PYTHON : abi::PT_NODE_PLAIN);
}

absl::Status BpfPrograms::AddAutogradLayout(Pid pid, const abi::pt_autograd_layout& layout) {
  if (!is_loaded()) return absl::OkStatus();
  const uint32_t key = Raw(pid);
  const int fd = bpf_map__fd(impl_->skeleton->maps.autograd_layouts);
  if (bpf_map_update_elem(fd, &key, &layout, BPF_ANY) != 0) {
    return Fail(ExitCode::kHostUnfit, "too many recorded processes: " + ErrnoText(errno));
  }
  return absl::OkStatus();
}

absl::Status BpfPrograms::AddPythonLayout(Pid pid, const abi::pt_python_layout& layout) {
  if (!is_loaded()) return absl::OkStatus();
  const uint32_t key = Raw(pid);
  const int fd = bpf_map__fd(impl_->skeleton->maps.python_layouts);
  if (bpf_map_update_elem(fd, &key, &layout, BPF_ANY) != 0) {
    return Fail(ExitCode::kHostUnfit, "too many recorded processes: " + ErrnoText(errno));
  }
  return absl::OkStatus();
}

absl::Status BpfPrograms::AddScriptLayout(Pid pid, const abi::pt_script_layout& layout) {
  if (!is_loaded()) return absl::OkStatus();
  const uint32_t key = Raw(pid);
  const int fd = bpf_map__fd(impl_->skeleton->maps.script_layouts);
  if (bpf_map_update_elem(fd, &key, &layout, BPF_ANY) != 0) {
    return Fail(ExitCode::kHostUnfit, "too many recorded processes: " + ErrnoText(errno));
  }
  return absl::OkStatus();
}

void BpfPrograms::RemoveAutogradLayout(Pid pid) {
  if (!is_loaded()) return;
  const uint32_t process = Raw(pid);
  bpf_map_delete_elem(bpf_map__fd(impl_->skeleton->maps.autograd_layouts), &process);
  // Forgets the places that the process's threads have found already. Threads of other processes
  // find theirs again.
  for (auto& place : impl_->skeleton->bss->autograd_places) place.tid = 0;
  const bpf_map* threads = impl_->skeleton->maps.autograd_threads;
  uint32_t tid = 0;
  for (uint32_t i = 0; i < bpf_map__max_entries(threads); ++i) {
    if (bpf_map_get_next_key(bpf_map__fd(threads), nullptr, &tid) != 0) break;
    bpf_map_delete_elem(bpf_map__fd(threads), &tid);
  }
}

absl::StatusOr<uint16_t> BpfPrograms::Impl::Number(const bpf_map* map, std::string content,
                                                   Numbers* numbers) {
  const std::lock_guard lock(numbers_mutex);
  const auto known = numbers->find(content);
  if (known != numbers->end()) return known->second;
  const uint32_t number = static_cast<uint32_t>(numbers->size()) + 1;
  if (number > kMostNumbers) {
    return Fail(ExitCode::kHostUnfit, "too many numbers in the cookies of probes");
  }
  if (map != nullptr &&
      bpf_map_update_elem(bpf_map__fd(map), &number, content.data(), BPF_ANY) != 0) {
    return Fail(ExitCode::kHostUnfit, std::string("too many entries for the BPF map ") +
                                          bpf_map__name(map) + ": " + ErrnoText(errno));
  }
  numbers->emplace(std::move(content), static_cast<uint16_t>(number));
  return static_cast<uint16_t>(number);
}

absl::StatusOr<uint16_t> BpfPrograms::AddValuePlace(const abi::pt_place& place) {
  return impl_->Number(is_loaded() ? impl_->skeleton->maps.value_places : nullptr,
                       std::string(reinterpret_cast<const char*>(&place), sizeof(place)),
                       &impl_->places);
}

absl::StatusOr<uint16_t> BpfPrograms::AddSignature(const abi::pt_signature& signature) {
  return impl_->Number(is_loaded() ? impl_->skeleton->maps.signatures : nullptr,
                       std::string(reinterpret_cast<const char*>(&signature), sizeof(signature)),
                       &impl_->signatures);
}

absl::StatusOr<uint16_t> BpfPrograms::AddRowInputs(const abi::pt_row_inputs& inputs) {
  return impl_->Number(is_loaded() ? impl_->skeleton->maps.row_inputs : nullptr,
                       std::string(reinterpret_cast<const char*>(&inputs), sizeof(inputs)),
                       &impl_->row_inputs);
}

absl::Status BpfPrograms::AddOperatorSignature(Pid pid, uint64_t operator_def, uint16_t signature) {
  if (!is_loaded()) return absl::OkStatus();
  return AddAddress(impl_->skeleton->maps.operator_signatures, pid, operator_def, signature);
}

absl::Status BpfPrograms::SetNodeSignature(Pid pid, uint16_t signature) {
  if (!is_loaded()) return absl::OkStatus();
  const uint32_t key = Raw(pid);
  const uint32_t value = signature;
  const int fd = bpf_map__fd(impl_->skeleton->maps.node_signatures);
  if (bpf_map_update_elem(fd, &key, &value, BPF_ANY) != 0) {
    return Fail(ExitCode::kHostUnfit, "too many recorded processes: " + ErrnoText(errno));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> BpfPrograms::Poll(int timeout_ms, const RecordCallback& callback) {
  if (!is_loaded()) return impl_->watch->WaitAndTake(timeout_ms, callback);
  return impl_->ring.WaitAndTake(timeout_ms, callback);
}

KernelCounters BpfPrograms::ReadCounters() const {
  if (!is_loaded()) return KernelCounters();
  const int cpus = libbpf_num_possible_cpus();
  std::vector<uint64_t> values(static_cast<size_t>(cpus > 0 ? cpus : 1));
  const int fd = bpf_map__fd(impl_->skeleton->maps.drops);
  const auto sum = [&](uint32_t reason) {
    uint64_t total = 0;
    if (bpf_map_lookup_elem(fd, &reason, values.data()) == 0) {
      for (const uint64_t value : values) total += value;
    }
    return total;
  };
  return KernelCounters{sum(abi::PT_DROP_RING_FULL), sum(abi::PT_DROP_READ_FAILED),
                        sum(abi::PT_DROP_FORK), sum(abi::PT_DROP_EXIT)};
}

void BpfPrograms::StopRecording() {
  if (is_loaded()) impl_->skeleton->bss->stopped = 1;
}

}  // namespace proftrace
