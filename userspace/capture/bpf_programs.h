// The loaded BPF object: its programs, maps and the ring. One owner; everything in the kernel goes
// with it. Or, where there is no eBPF, what stands in for it (WithoutKernel): nothing is probed
// then.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "bpf/abi/demotions.h"
#include "bpf/abi/python_records.h"
#include "bpf/abi/records.h"
#include "bpf/abi/script_records.h"
#include "userspace/capture/attach.h"
#include "userspace/model/ids.h"

namespace proftrace {

struct BpfOptions {
  uint32_t ring_bytes = 32u << 20;  // a power of two, at least a page
  bool follow_children = true;
  bool record_shapes = false;  // with the programs that read operators' inputs
  bool with_stack = false;     // with those that read Python's frames
  bool with_modules = false;   // with those that read TorchScript's frames; needs with_stack
  bool beside_jumps = false;   // which see a part of the ends of rows, and of catches
  bool has_budget = false;     // operators may be demoted (--max-overhead)
  bool empty_program = false;  // the kernel's floor: probes that record nothing (tests/bench)
  UprobeApi first_api = UprobeApi::kMulti;  // those before it are not tried (tests)
  bool force_links_for_all = false;         // as on kernels from 6.6 to 6.9 (tests)
  // Threads whose losses can be told apart; 0 = as many as the programs have room for (tests).
  uint32_t loss_threads = 0;
};

// What the kernel side counted.
struct KernelCounters {
  uint64_t ring_lost = 0;
  uint64_t read_failed = 0;
  uint64_t forks_lost = 0;  // children that nobody was told of
  uint64_t exits_lost = 0;  // ends of processes that nobody was told of
};

class BpfPrograms {
 public:
  using RecordCallback = std::function<void(std::span<const std::byte>)>;

  // Loads the object, finds out which way of attaching the kernel has, and measures what one hit
  // costs here. Fails with kNotPermitted or kHostUnfit.
  static absl::StatusOr<std::unique_ptr<BpfPrograms>> Load(const BpfOptions& options);
  // Asks nothing of the kernel: no probe is ever attached, what the programs would be told is
  // dropped, and forks, execs and ends come as records from a ProcessWatch.
  static std::unique_ptr<BpfPrograms> WithoutKernel(const BpfOptions& options);
  ~BpfPrograms();
  BpfPrograms(const BpfPrograms&) = delete;
  BpfPrograms& operator=(const BpfPrograms&) = delete;

  // Whether there are programs in the kernel.
  bool is_loaded() const;
  UprobeApi api() const { return api_; }
  // Whether this kernel has links for all processes alone that see all threads: processes that are
  // not recorded run into the probes as well, and are told apart.
  bool are_links_for_all() const;
  // Does what AttachModule() does, with the recording program.
  absl::StatusOr<LinkSet> Attach(const ModulePlan& module, std::optional<Pid> pid,
                                 AttachReport* report) const;
  // Whether operators' inputs can be read: they were asked for, and the kernel takes the programs
  // (it needs bpf_loop: Linux 5.17).
  bool reads_inputs() const { return reads_inputs_; }
  // Whether Python's stacks were asked for, and whether they can be read.
  bool wants_stacks() const { return wants_stacks_; }
  bool reads_stacks() const { return reads_stacks_; }
  // Whether the modules of TorchScript's rows were asked for.
  bool wants_scripts() const { return wants_scripts_; }
  // Nanoseconds that one hit takes, record included: the measured median of a loop in this process;
  // 0 where nothing is loaded.
  double ns_per_hit() const { return ns_per_hit_; }
  // Nanoseconds that one hit takes that is only counted; 0 where nothing is ever demoted.
  double ns_per_count() const { return ns_per_count_; }

  // Forks, execs and exits of traced processes are recorded from here on.
  absl::Status AttachProcessEvents();
  absl::Status TraceProcess(Pid pid);
  // Frees what the kernel's side keeps of a process that has ended or runs something else.
  void ForgetProcess(Pid pid);
  absl::Status AddAnnotationOperator(Pid pid, uint64_t operator_def, uint32_t step);
  absl::Status AddNodeVtable(Pid pid, uint64_t vtable, bool is_python);
  absl::Status AddAutogradLayout(Pid pid, const abi::pt_autograd_layout& layout);
  // Gives the process's rows the stacks of Python from here on.
  absl::Status AddPythonLayout(Pid pid, const abi::pt_python_layout& layout);
  // Has the process's rows tell what TorchScript's interpreter runs from here on.
  absl::Status AddScriptLayout(Pid pid, const abi::pt_script_layout& layout);
  // Gives the process's operators no sequence numbers any more.
  void RemoveAutogradLayout(Pid pid);
  // Returns the place's number, for PT_COOKIE_PLACE. Equal places have one number.
  absl::StatusOr<uint16_t> AddValuePlace(const abi::pt_place& place);
  // Returns the signature's number. Equal signatures have one number.
  absl::StatusOr<uint16_t> AddSignature(const abi::pt_signature& signature);
  // Returns the number of a row's inputs, for pt_place::inputs.
  absl::StatusOr<uint16_t> AddRowInputs(const abi::pt_row_inputs& inputs);
  // `signature`: the number of what the operator is called with where that is in a row's words.
  absl::Status AddOperatorSignature(Pid pid, uint64_t operator_def, uint16_t signature);
  // Sets the signature by which the inputs of the process's autograd nodes are read.
  absl::Status SetNodeSignature(Pid pid, uint16_t signature);

  // Calls at a site of the process are only counted from here on. `number`: of this demotion, from
  // 1 to PT_MOST_DEMOTIONS - 1, of which no two have the same. May be called again.
  absl::Status Demote(Pid pid, uint16_t site, uint32_t number, abi::pt_demotion state);
  uint64_t CountedCalls(uint32_t number) const;
  // Between these two calls two links may have the same probes, whose cookies differ in
  // PT_COOKIE_GENERATION: each hit is recorded by one of them.
  void BeginHandover();
  void EndHandover();
  bool can_exchange_links() const { return has_budget_ && api_ == UprobeApi::kMulti; }

  // Waits up to `timeout_ms` for a wake-up, then hands every record that is there to `callback`;
  // how many.
  absl::StatusOr<uint64_t> Poll(int timeout_ms, const RecordCallback& callback);
  KernelCounters ReadCounters() const;
  // Returns the longest time, in nanoseconds, for which nobody looked at the processes; 0 where the
  // kernel tells of them.
  int64_t longest_unwatched_ns() const;
  // Lets no probe record anything from here on, whether its link is still there or not.
  void StopRecording();

 private:
  struct Impl;
  BpfPrograms();
  int probe_program_fd() const;
  // `records`: what it added to the ring is counted there.
  absl::StatusOr<double> MeasureHit(uint64_t* records);
  absl::Status MeasureCosts();
  void ForgetDemotions(Pid pid);

  std::unique_ptr<Impl> impl_;
  UprobeApi api_ = UprobeApi::kMulti;
  bool are_all_threads_seen_ = true;  // by links for one process
  bool reads_inputs_ = false;
  bool wants_stacks_ = false;
  bool reads_stacks_ = false;
  bool wants_scripts_ = false;
  bool has_budget_ = false;
  double ns_per_hit_ = 0;
  double ns_per_count_ = 0;
};

}  // namespace proftrace
