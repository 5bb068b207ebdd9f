// What to probe in one process image, and what each probe means. Made by symbols/, attached by
// userspace/capture, written into the capture so that a replay needs neither the process nor its
// libraries.
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

// How the exit of a function was found, as there are no return probes (symbols/x86/exit_sites.h).
// The kernel single-steps kReturn sites.
enum class ExitRule : uint8_t {
  kNone = 0,         // the site needs no exit (catch), or has none: then it is not probed at all
  kConditional = 1,  // one conditional jump on every normal return
  kSiteSet = 2,      // several sites with one cookie, each normal return passes exactly one
  kReturn = 3,       // the ret instructions
};

// One thing with a begin and an end. Its index in ProbePlan::sites is the `site` of the records;
// index 0 is unused.
struct SiteInfo {
  Label label;  // empty name: named by the record's payload (boxed operators, nodes, annotations)
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
  uint16_t place = 0;      // 1 + index into ProbePlan::places of what the record names, 0 = none
  uint16_t signature = 0;  // 1 + index into ProbePlan::signatures of what is read, 0 = nothing
};

// The site in the point's cookie; 0 = the point belongs to no site.
inline uint16_t SiteOf(const ProbePoint& point) { return static_cast<uint16_t>(point.cookie); }
// The role in the point's cookie, an enum pt_role.
inline uint8_t RoleOf(const ProbePoint& point) { return static_cast<uint8_t>(point.cookie >> 16); }
inline void SetRole(abi::pt_role role, ProbePoint* point) {
  point->cookie = (point->cookie & ~0xff0000ull) | static_cast<uint64_t>(role) << 16;
}

// A file as the kernel knows it.
struct FileId {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint32_t time = 0;  // 0 = loaded once, 1 = a second time (torch_copies.h)

  auto operator<=>(const FileId&) const = default;
};

struct ModulePlan {
  std::string name;      // the last component of its path, for people
  std::string build_id;  // hex; may be empty
  FileId file;           // as /proc/PID/maps has it
  // The file that was analysed, and the only one that gets its probes. Never null in a plan.
  std::shared_ptr<const HeldFile> held;
  // /proc/PID/map_files/START-END of a mapping of its code: where the process has it loaded.
  std::string mapped_path;
  uint64_t load_bias = 0;  // address in the target less address in the file
  // The segments that are loaded from the file, as ElfFile::segments() has them.
  std::vector<Elf64_Phdr> segments;
  std::vector<ProbePoint> points;  // ascending by file_offset, no two equal
  // Second probes right behind operators' begins, with the site of their begin: the time from a
  // begin's record to theirs is what one hit costs in this process. Only attached to measure that.
  std::vector<ProbePoint> cost_points;  // ascending by file_offset, no two equal
};

// An operator of the live Dispatcher.
struct OperatorInfo {
  uint64_t address = 0;  // of its OperatorDef in the target
  std::string name;      // "aten::add"
  std::string overload_name;
  std::string schema;  // "aten::add.Tensor(Tensor self, …) -> Tensor"; empty where it was not read
};

// The feature of the gap that plans with probes at calls of CUDA have.
inline constexpr char kLaunchLevelFeature[] = "GPU kernels, copies and their times";

struct PlanGap {
  std::string feature;
  std::string reason;
  // Whether the gap is about code that a library has, whatever the job does: most never run it.
  bool is_of_code = false;
  std::string row;  // the row that lacks it; empty = whether that code ran is not known
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
  bool operators_whole = false;     // these are all that it had at one moment
  uint32_t unlisted_operators = 0;  // of operator_count: the Dispatcher did not name them
  std::vector<PlanGap> gaps;        // what could not be resolved, and why
  uint32_t operator_count = 0;      // operators that have a probe
  uint64_t python_node_vtable =
      0;  // address in the target of PyNode's vtable (as objects point to it), 0 = unknown
  std::string torch_version;  // "2.11.0+cu130"; empty = not known
  std::string torch_build_id;
  std::string python_version;   // "3.11"
  bool old_string_abi = false;  // libtorch uses the pre-C++11 std::string (wheels up to 2.5)
  bool from_cache = false;
  // Whether allocations and frees of CPU memory have probes. All memory probes are of one site.
  bool has_memory_probes = false;
  uint16_t memory_site = 0;     // 0 = none
  bool has_cuda_calls = false;  // calls of the CUDA Runtime or Driver have probes
  bool has_agent = false;       // an agent in the process tells of them: they need none
  MemoryRange torch_data;  // the zeroed data (.bss) of the library that defines torch's operators
  uint64_t dispatcher_slot =
      0;  // address in the target of the pointer to its Dispatcher, 0 = unknown (see ReadOperators)
  // Where sequence numbers come from; nullopt: they are not recorded.
  std::optional<abi::pt_autograd_layout> autograd;
  std::vector<abi::pt_place> places;  // what ProbePoint::place counts
  std::set<FileId> files;             // what the process had mapped
  // Whether operators' inputs are read (--record-shapes).
  bool has_input_probes = false;
  std::vector<abi::pt_signature> signatures;  // what ProbePoint::signature counts
  // What pt_place::inputs of `places` counts; pt_row_inputs::signature counts `signatures`. Both
  // are 1 + an index, until the kernel has numbers for them.
  std::vector<abi::pt_row_inputs> row_inputs;
  // Signatures of operators that have no function of their own, numbered as in `row_inputs`.
  std::vector<OperatorSignature> operator_signatures;
  uint16_t node_signature = 0;  // of autograd nodes: 1 + index into `signatures`, 0 = not read
  uint16_t node_signature_number = 0;  // the kernel's number of it
};

}  // namespace proftrace
