// A probe plan says where one process image is probed and what each probe means. symbols/ makes the
// plan, userspace/capture attaches its probes and writes it into the capture, so that a replay
// needs neither the process nor its libraries.
#pragma once

#include <elf.h>

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bpf/abi/records.h"
#include "symbols/process/held_file.h"
#include "symbols/process/process_memory.h"
#include "userspace/model/label.h"

namespace proftrace {

inline constexpr size_t kMaxSites = 65535;  // a record's `site` has 16 bits

// How the exit of a function was found. There are no return probes, so that exits are ordinary
// probes (symbols/x86/exit_sites.h). The kernel single-steps kReturn sites.
enum class ExitRule : uint8_t {
  // The site needs no exit (catch), or no exit was found and the function is not probed at all
  kNone = 0,
  kConditional = 1,  // one conditional jump that every normal return passes
  kSiteSet = 2,      // several sites with one cookie, each normal return passes exactly one
  kReturn = 3,       // the ret instructions
};

// One kind of span with a begin and an end, mostly a function. Its index in ProbePlan::sites is the
// `site` of the records; index 0 is unused.
struct SiteInfo {
  // Empty name: the record's payload has the name (boxed operators, nodes, annotations)
  Label label;
  std::string
      symbol;  // mangled name of the function, or "sub_<hex>" where the file has no symbol for it
  ExitRule exit_rule = ExitRule::kNone;
};

// One probe: a place in a file.
struct ProbePoint {
  uint64_t file_offset = 0;
  // PT_COOKIE(site, role, register, extra). `extra` of a node's begin: the offset of the PyObject*
  // in a PyNode, 0 = do not read it; of a boxed operator's begin: the register (enum pt_register)
  // that holds its Stack*.
  uint64_t cookie = 0;
  // 1 + the index in ProbePlan::places of the place where the record finds the row's name, 0 = none
  uint16_t place = 0;
  // 1 + the index in ProbePlan::signatures of the inputs that are read, 0 = none are
  uint16_t signature = 0;
};

// Returns the site in the point's cookie; 0 = the point belongs to no site.
inline uint16_t SiteOf(const ProbePoint& point) { return static_cast<uint16_t>(point.cookie); }
// Returns the role in the point's cookie, an enum pt_role.
inline uint8_t RoleOf(const ProbePoint& point) { return static_cast<uint8_t>(point.cookie >> 16); }
inline void SetRole(abi::pt_role role, ProbePoint* point) {
  point->cookie = (point->cookie & ~0xff0000ull) | static_cast<uint64_t>(role) << 16;
}

// A file by its numbers in the kernel.
struct FileId {
  uint64_t device = 0;
  uint64_t inode = 0;
  // 0 = the first time that the file is loaded, 1 = the second time (torch_copies.h)
  uint32_t time = 0;

  auto operator<=>(const FileId&) const = default;
};

struct ModulePlan {
  std::string name;      // the last component of its path, for messages
  std::string build_id;  // hex; may be empty
  FileId file;           // with the numbers in /proc/PID/maps
  // The file that was analysed; no other file gets these probes. Never null in a plan.
  std::shared_ptr<const HeldFile> held;
  // /proc/PID/map_files/START-END of a mapping of the module's code in the process.
  std::string mapped_path;
  uint64_t load_bias = 0;  // address in the target less address in the file
  // The segments that are loaded from the file, as ElfFile::segments() returns them.
  std::vector<Elf64_Phdr> segments;
  std::vector<ProbePoint> points;  // ascending by file_offset, no two equal
  // Second probes right behind operators' begins, with the same sites. The time from a begin's
  // record to that of its second probe is the cost of one hit in this process. They are attached
  // only to measure that cost.
  std::vector<ProbePoint> cost_points;  // ascending by file_offset, no two equal
};

// An operator of the live Dispatcher.
struct OperatorInfo {
  uint64_t address = 0;  // the address of its OperatorDef in the target
  std::string name;      // "aten::add"
  std::string overload_name;
  // "aten::add.Tensor(Tensor self, …) -> Tensor"; empty where the schema was not read
  std::string schema;
};

// PlanGap::feature of the gap in every plan that has probes at calls of CUDA.
inline constexpr char kLaunchLevelFeature[] = "GPU kernels, copies and their times";

struct PlanGap {
  std::string feature;
  std::string reason;
  // Whether the gap is about code that a library has whatever the job does: most jobs never run it.
  bool is_of_code = false;
  std::string row;  // the row that the gap concerns; empty = it is not known whether that code ran
};

struct OperatorSignature {
  uint64_t operator_def = 0;  // its address in the target
  uint16_t signature = 0;
};

struct ProbePlan {
  std::vector<SiteInfo> sites;
  std::vector<ModulePlan> modules;
  std::vector<OperatorInfo>
      operators;  // ascending by address; empty when the Dispatcher could not be read
  bool operators_whole = false;     // `operators` holds all that the Dispatcher had at one moment
  uint32_t unlisted_operators = 0;  // how many of operator_count are not in the Dispatcher's list
  std::vector<PlanGap> gaps;        // features that could not be resolved, and why
  uint32_t operator_count = 0;      // operators that have a probe
  uint64_t python_node_vtable =
      0;  // address in the target of PyNode's vtable (as objects point to it), 0 = unknown
  std::string torch_version;  // "2.11.0+cu130"; empty = not known
  std::string torch_build_id;
  std::string python_version;   // "3.11"
  bool old_string_abi = false;  // libtorch uses the pre-C++11 std::string (wheels up to 2.5)
  bool from_cache = false;
  // Whether allocations and frees of CPU memory have probes. All memory probes have one site.
  bool has_memory_probes = false;
  uint16_t memory_site = 0;     // 0 = none
  bool has_cuda_calls = false;  // calls of the CUDA Runtime or Driver have probes
  // An agent in the process reports these calls, so that they need no probes
  bool has_agent = false;
  MemoryRange torch_data;  // the zeroed data (.bss) of the library that defines torch's operators
  uint64_t dispatcher_slot =
      0;  // address in the target of the pointer to its Dispatcher, 0 = unknown (see ReadOperators)
  // Where the process keeps the numbers from which sequence numbers are recorded; nullopt: these
  // are not recorded.
  std::optional<abi::pt_autograd_layout> autograd;
  std::vector<abi::pt_place> places;  // ProbePoint::place refers to these
  std::set<FileId> files;             // the files that the process had mapped
  // Whether operators' inputs are read (--record-shapes).
  bool has_input_probes = false;
  std::vector<abi::pt_signature> signatures;  // ProbePoint::signature refers to these
  // pt_place::inputs of `places` refers to these, and pt_row_inputs::signature to `signatures`.
  // Both are 1 + an index, until the kernel has numbers for them.
  std::vector<abi::pt_row_inputs> row_inputs;
  // Signatures of operators that have no function of their own, numbered as in `row_inputs`.
  std::vector<OperatorSignature> operator_signatures;
  // The signature of autograd nodes: 1 + the index in `signatures`, 0 = inputs are not read
  uint16_t node_signature = 0;
  uint16_t node_signature_number = 0;  // the kernel's number of that signature
};

}  // namespace proftrace
