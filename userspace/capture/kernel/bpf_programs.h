// The loaded BPF object: its programs, maps and the ring. Everything in the kernel is removed when
// the object is destroyed. Where there is no eBPF, an object without programs stands in for it
// (WithoutKernel), and nothing is probed.
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
#include "userspace/capture/kernel/attach.h"
#include "userspace/model/ids.h"

namespace proftrace {

struct BpfOptions {
  uint32_t ring_bytes = 32u << 20;  // a power of two, at least a page
  bool follow_children = true;
  bool record_shapes = false;  // with the programs that read operators' inputs
  bool with_stack = false;     // with the programs that read Python's frames
  bool with_modules = false;   // with the programs that read TorchScript's frames; needs with_stack
  bool beside_jumps = false;   // jumps record a part of the ends of rows, and of catches
  bool has_budget = false;     // operators may be demoted (--max-overhead)
  bool empty_program = false;  // the kernel's floor: probes that record nothing (tests/bench)
  UprobeApi first_api = UprobeApi::kMulti;  // APIs before this one are not tried (tests)
  bool force_links_for_all = false;         // as on kernels from 6.6 to 6.9 (tests)
  // Threads whose losses can be told apart; 0: as many as the programs have room for (tests).
  uint32_t loss_threads = 0;
};

// The losses that the programs in the kernel have counted.
struct KernelCounters {
  uint64_t ring_lost = 0;
  uint64_t read_failed = 0;
  uint64_t forks_lost = 0;  // forks whose record found no room
  uint64_t exits_lost = 0;  // ends of processes whose record found no room
};

class BpfPrograms {
 public:
  using RecordCallback = std::function<void(std::span<const std::byte>)>;

  // Loads the object, finds out which way of attaching the kernel has, and measures what one hit
  // costs here. Fails with kNotPermitted or kHostUnfit.
  static absl::StatusOr<std::unique_ptr<BpfPrograms>> Load(const BpfOptions& options);
  // Makes an object that loads nothing: no probe is ever attached, the calls that would fill the
  // programs' maps do nothing, and forks, execs and ends come as records from a ProcessWatch.
  static std::unique_ptr<BpfPrograms> WithoutKernel(const BpfOptions& options);
  ~BpfPrograms();
  BpfPrograms(const BpfPrograms&) = delete;
  BpfPrograms& operator=(const BpfPrograms&) = delete;

  // Whether there are programs in the kernel.
  bool is_loaded() const;
  UprobeApi api() const { return api_; }
  // Whether on this kernel only links for all processes see all threads. Processes that are not
  // recorded then hit the probes as well, and the programs tell them apart.
  bool are_links_for_all() const;
  // Attaches a module's points as AttachModule() does, with the recording program.
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
  // Returns the nanoseconds that one hit takes, its record included: the median of a loop in this
  // process; 0 where nothing is loaded.
  double ns_per_hit() const { return ns_per_hit_; }
  // Returns the nanoseconds that a hit takes which is only counted; 0 where nothing is ever
  // demoted.
  double ns_per_count() const { return ns_per_count_; }

  // Has forks, execs and exits of traced processes recorded from here on.
  absl::Status AttachProcessEvents();
  absl::Status TraceProcess(Pid pid);
  // Frees what the programs' maps keep of a process that has ended or runs another program.
  void ForgetProcess(Pid pid);
  absl::Status AddAnnotationOperator(Pid pid, uint64_t operator_def, uint32_t step);
  absl::Status AddNodeVtable(Pid pid, uint64_t vtable, bool is_python);
  absl::Status AddAutogradLayout(Pid pid, const abi::pt_autograd_layout& layout);
  // Has the Python stacks of the process's rows recorded from here on.
  absl::Status AddPythonLayout(Pid pid, const abi::pt_python_layout& layout);
  // Has the code that TorchScript's interpreter runs recorded with the process's rows from here on.
  absl::Status AddScriptLayout(Pid pid, const abi::pt_script_layout& layout);
  // Leaves the sequence numbers of the process's operators out from here on.
  void RemoveAutogradLayout(Pid pid);
  // Returns the place's number, for PT_COOKIE_PLACE. Equal places have one number.
  absl::StatusOr<uint16_t> AddValuePlace(const abi::pt_place& place);
  // Returns the signature's number. Equal signatures have one number.
  absl::StatusOr<uint16_t> AddSignature(const abi::pt_signature& signature);
  // Returns the number of a row's inputs, for pt_place::inputs.
  absl::StatusOr<uint16_t> AddRowInputs(const abi::pt_row_inputs& inputs);
  // Sets the signature (by its number) by which the arguments of the operator are read where a
  // row's words hold its arguments.
  absl::Status AddOperatorSignature(Pid pid, uint64_t operator_def, uint16_t signature);
  // Sets the signature by which the inputs of the process's autograd nodes are read.
  absl::Status SetNodeSignature(Pid pid, uint16_t signature);

  // Has calls at a site of the process only counted from here on. `number` is from 1 to
  // PT_MOST_DEMOTIONS - 1, and no other demotion has the same one. May be called again.
  absl::Status Demote(Pid pid, uint16_t site, uint32_t number, abi::pt_demotion state);
  uint64_t CountedCalls(uint32_t number) const;
  // Between these two calls two links may have the same probes, whose cookies differ in
  // PT_COOKIE_GENERATION: each hit is recorded by one of them.
  void BeginHandover();
  void EndHandover();
  bool can_exchange_links() const { return has_budget_ && api_ == UprobeApi::kMulti; }

  // Waits up to `timeout_ms` for a wake-up, then hands every record that is there to `callback`.
  // Returns the number of these records.
  absl::StatusOr<uint64_t> Poll(int timeout_ms, const RecordCallback& callback);
  KernelCounters ReadCounters() const;
  // Returns the longest time, in nanoseconds, between two looks at the processes; 0 where programs
  // in the kernel report the processes' events.
  int64_t longest_unwatched_ns() const;
  // Stops all recording by probes, whether their links are still there or not.
  void StopRecording();

 private:
  struct Impl;
  BpfPrograms();
  int probe_program_fd() const;
  // Returns the nanoseconds of a hit, and increases `records` by the number of records that the
  // loop adds to the ring.
  absl::StatusOr<double> MeasureHit(uint64_t* records);
  absl::Status MeasureCosts();
  void ForgetDemotions(Pid pid);

  std::unique_ptr<Impl> impl_;
  UprobeApi api_ = UprobeApi::kMulti;
  bool are_all_threads_seen_ = true;  // whether links for one process see all its threads
  bool reads_inputs_ = false;
  bool wants_stacks_ = false;
  bool reads_stacks_ = false;
  bool wants_scripts_ = false;
  bool has_budget_ = false;
  double ns_per_hit_ = 0;
  double ns_per_count_ = 0;
};

}  // namespace proftrace
