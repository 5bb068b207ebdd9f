// Implements FindPatchWindows(), which finds the windows of a whole file.
#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <span>

#include "symbols/elf/landing_pads.h"
#include "symbols/x86/branch_scan.h"
#include "symbols/x86/jump_table.h"
#include "symbols/x86/patch_windows.h"
#include "userspace/base/turns.h"

namespace proftrace {
namespace {

// The most bytes around a point that can matter to its window: the window's reach and its longest
// instructions.
constexpr uint64_t kNeighbourhood = 64;
// Larger functions are not decoded to see what jumps. Interpreter loops have 200 kB.
constexpr uint64_t kMostSourceBytes = uint64_t{1} << 20;
// The most bytes that are decoded to judge branches. A libtorch needs a tenth. In a file that is
// made to need more, each further branch counts as one that leads into the function.
constexpr uint64_t kMostDecodedBytes = uint64_t{64} << 20;
// A part of a function that lies apart from it is small: larger code is another function.
constexpr uint64_t kMostPartBytes = 32 * 1024;
// How many functions a thread takes at a time.
constexpr size_t kFunctionsATurn = 32;

constexpr RegisterSet Bit(unsigned reg) { return RegisterSet{1} << reg; }
// The argument registers in the order of enum pt_register.
constexpr unsigned kArgumentRegisters[] = {kRdi, kRsi, kRdx, kRcx, kR8, kR9};
constexpr RegisterSet kAllArguments =
    Bit(kRdi) | Bit(kRsi) | Bit(kRdx) | Bit(kRcx) | Bit(kR8) | Bit(kR9);
// rbx, rbp, r12 to r15.
constexpr RegisterSet kKeptRegisters = 0xf028;

RegisterSet Argument(uint64_t number) {
  return number < std::size(kArgumentRegisters) ? Bit(kArgumentRegisters[number]) : kAllArguments;
}

RegisterSet BaseOf(const abi::pt_place& place) { return place.base < 16 ? Bit(place.base) : 0; }

// A function with its points.
struct Group {
  std::optional<FunctionRange> function;
  std::vector<size_t> points;  // indices
};

class ModuleSearch {
 public:
  ModuleSearch(const ModuleImage& image, const ModulePlan& module, const ProbePlan& plan)
      : image_(image), module_(module), plan_(plan), patches_(module.points.size()) {}

  std::vector<PointPatch> Run();

 private:
  void Resolve();
  void GroupByFunction();
  void FindOutsideTargets();
  void SearchGroup(const Group& group);
  std::vector<uint64_t> TargetsInto(const FunctionCode& code, const std::vector<uint64_t>& pads);
  void RefuseAll(const Group& group, std::string_view reason);

  const ModuleImage& image_;
  const ModulePlan& module_;
  const ProbePlan& plan_;
  std::vector<PointPatch> patches_;
  std::vector<Group> groups_;
  std::vector<uint64_t> outside_targets_;  // ascending
  bool knows_branches_ = true;  // whether all branches from elsewhere into the functions are known
};

// Finds the addresses of the points; a point in no segment gets the address 0.
void ModuleSearch::Resolve() {
  for (size_t i = 0; i < patches_.size(); ++i) {
    patches_[i].point = image_.file().AddressOfOffset(module_.points[i].file_offset).value_or(0);
  }
}

void ModuleSearch::GroupByFunction() {
  absl::flat_hash_map<uint64_t, size_t> by_start;
  for (size_t i = 0; i < patches_.size(); ++i) {
    const auto function = image_.UnwindRangeAt(patches_[i].point);
    const uint64_t key = function ? function->start : UINT64_MAX;
    const auto [it, is_new] = by_start.try_emplace(key, groups_.size());
    if (is_new) groups_.push_back({function, {}});
    groups_[it->second].points.push_back(i);
  }
  for (Group& group : groups_) {
    std::sort(group.points.begin(), group.points.end(),
              [this](size_t a, size_t b) { return patches_[a].point < patches_[b].point; });
  }
}

// Whether the branch leads into its target's function from another function: an instruction of that
// other function must begin at `branch.address`. Branches within a function are found with its
// code. To be safe, returns true where this cannot be told.
bool LeadsIn(const ModuleImage& image, const Branch& branch, std::atomic<uint64_t>* decoded) {
  const auto source = image.UnwindRangeAt(branch.address);
  if (!source) return true;
  if (branch.target >= source->start && branch.target < source->end) return false;
  const uint64_t bytes_before = branch.address - source->start;
  if (bytes_before > kMostSourceBytes || *decoded > kMostDecodedBytes) return true;
  *decoded += bytes_before;
  std::vector<uint8_t> bytes(bytes_before + kMaxInstructionBytes);
  bytes.resize(image.ReadCode(source->start, bytes.data(), bytes.size()));
  for (const Instruction& instruction : DecodeAll(bytes.data(), bytes.size(), source->start)) {
    // The instruction may begin with a prefix, as in bnd jmp.
    if (instruction.next() > branch.address) return instruction.target == branch.target;
  }
  return true;
}

// Adds all places to which jump tables of `part` lead.
void AddTableTargets(const ModuleImage& image, const FunctionRange& part,
                     std::vector<uint64_t>* targets) {
  if (part.end - part.start > kMostPartBytes) return;
  std::vector<uint8_t> bytes(part.end - part.start);
  bytes.resize(image.ReadCode(part.start, bytes.data(), bytes.size()));
  // Looks for a jmp *register, which few functions have.
  bool has_jump = false;
  for (size_t i = 0; i + 1 < bytes.size() && !has_jump; ++i) {
    has_jump = bytes[i] == 0xff && (bytes[i + 1] & 0xf8) == 0xe0;
  }
  if (!has_jump) return;
  const std::vector<Instruction> code = DecodeAll(bytes.data(), bytes.size(), part.start);
  for (size_t i = 0; i < code.size(); ++i) {
    if (code[i].kind != InstructionKind::kIndirectJump) continue;
    const JumpTable table = ReadJumpTable(image, std::span(code.data(), i + 1));
    targets->insert(targets->end(), table.targets.begin(), table.targets.end());
  }
}

void ModuleSearch::FindOutsideTargets() {
  std::vector<AddressRange> places;
  std::vector<uint64_t> starts;
  for (const Group& group : groups_) {
    if (!group.function) continue;
    starts.push_back(group.function->start);
    for (const size_t point : group.points) {
      const uint64_t address = patches_[point].point;
      places.push_back({address - std::min(address, kNeighbourhood), address + kNeighbourhood});
    }
  }
  std::sort(starts.begin(), starts.end());
  std::sort(places.begin(), places.end(),
            [](const AddressRange& a, const AddressRange& b) { return a.first < b.first; });
  std::vector<AddressRange> apart;
  for (const AddressRange& place : places) {
    if (!apart.empty() && place.first <= apart.back().last) {
      apart.back().last = std::max(apart.back().last, place.last);
    } else {
      apart.push_back(place);
    }
  }
  std::optional<std::vector<Branch>> found = FindBranchesInto(image_.file(), apart);
  knows_branches_ = found.has_value();
  if (!found) return;
  std::vector<Branch>& branches = *found;
  // Branches to the function's begin are its calls. They do not matter, because a window never
  // covers a function's first instruction.
  std::erase_if(branches, [&](const Branch& branch) {
    return std::binary_search(starts.begin(), starts.end(), branch.target);
  });
  std::vector<uint8_t> leads_in(branches.size());
  std::atomic<uint64_t> decoded = 0;
  ShareTurns((branches.size() + kFunctionsATurn - 1) / kFunctionsATurn, [&]() -> TurnWorker {
    return [&](size_t turn) {
      const size_t last = std::min((turn + 1) * kFunctionsATurn, branches.size());
      for (size_t i = turn * kFunctionsATurn; i < last; ++i) {
        leads_in[i] = LeadsIn(image_, branches[i], &decoded) ? 1 : 0;
      }
    };
  });
  for (size_t i = 0; i < branches.size(); ++i) {
    if (leads_in[i] != 0) outside_targets_.push_back(branches[i].target);
  }
  std::sort(outside_targets_.begin(), outside_targets_.end());
}

void ModuleSearch::RefuseAll(const Group& group, std::string_view reason) {
  for (const size_t point : group.points) patches_[point].reason = reason;
}

// Returns the places in the function to which control comes from elsewhere: by the unwinder, by
// jumps and calls, and by jump tables in parts of the function that lie apart, to which it jumps or
// where it catches exceptions.
std::vector<uint64_t> ModuleSearch::TargetsInto(const FunctionCode& code,
                                                const std::vector<uint64_t>& pads) {
  std::vector<uint64_t> targets = pads;
  const auto at = [this](uint64_t address) {
    return std::lower_bound(outside_targets_.begin(), outside_targets_.end(), address);
  };
  targets.insert(targets.end(), at(code.start()), at(code.end() + kNeighbourhood));
  std::vector<uint64_t> parts;  // where they begin
  const auto add_part = [&](uint64_t address) {
    if (address == 0 || (address >= code.start() && address < code.end())) return;
    if (image_.IsPltStub(address)) return;
    const auto part = image_.UnwindRangeAt(address);
    if (!part || std::find(parts.begin(), parts.end(), part->start) != parts.end()) return;
    parts.push_back(part->start);
    AddTableTargets(image_, *part, &targets);
  };
  for (const Instruction& instruction : code.instructions()) {
    if (instruction.kind == InstructionKind::kConditionalJump ||
        instruction.kind == InstructionKind::kJump) {
      add_part(instruction.target);
    }
  }
  for (const uint64_t pad : pads) add_part(pad);
  return targets;
}

void ModuleSearch::SearchGroup(const Group& group) {
  if (!knows_branches_) return RefuseAll(group, "its file has too much code to search");
  if (!group.function) return RefuseAll(group, "no unwind table tells which function it is in");
  absl::StatusOr<FunctionCode> code =
      FunctionCode::Read(image_, group.function->start, group.function->end);
  if (!code.ok()) {
    return RefuseAll(group, absl::IsNotFound(code.status())
                                ? "its function jumps to places that are not known"
                                : "its function is too large, or does not decode");
  }
  const auto record = image_.UnwindRecordAt(group.function->start);
  const auto pads = ReadLandingPads(image_.file(), record.value_or(0));
  if (!pads.ok()) return RefuseAll(group, "its function's unwind table is not understood");
  code->AddTargets(TargetsInto(*code, *pads));
  std::vector<PatchPoint> points;
  for (const size_t point : group.points) {
    points.push_back({patches_[point].point, ReadsOf(module_.points[point], plan_)});
  }
  const std::vector<PointPatch> chosen = ChooseWindows(image_, *code, points);
  for (size_t i = 0; i < chosen.size(); ++i) patches_[group.points[i]] = chosen[i];
}

std::vector<PointPatch> ModuleSearch::Run() {
  Resolve();
  GroupByFunction();
  FindOutsideTargets();
  ShareTurns((groups_.size() + kFunctionsATurn - 1) / kFunctionsATurn, [&]() -> TurnWorker {
    return [&](size_t turn) {
      const size_t last = std::min((turn + 1) * kFunctionsATurn, groups_.size());
      for (size_t i = turn * kFunctionsATurn; i < last; ++i) SearchGroup(groups_[i]);
    };
  });
  return std::move(patches_);
}

}  // namespace

PointReads ReadsOf(const ProbePoint& point, const ProbePlan& plan) {
  const uint64_t cookie = point.cookie;
  const RegisterSet hardware = Bit(cookie >> 24 & 0xf);
  const uint64_t reg = cookie >> 24 & 0xff;
  const bool in_memory = (cookie >> 24 & PT_KEY_SET_IN_MEMORY) != 0;
  PointReads reads;
  if (point.place != 0 && point.place <= plan.places.size()) {
    const abi::pt_place& place = plan.places[point.place - 1];
    reads.registers = BaseOf(place);
    reads.memory = true;
    if (place.inputs != 0 && place.inputs <= plan.row_inputs.size()) {
      for (const abi::pt_place& word : plan.row_inputs[place.inputs - 1].words) {
        reads.registers |= BaseOf(word);
      }
    }
  }
  switch (cookie >> 16 & 0xff) {
    case abi::PT_ROLE_BEGIN:
    case abi::PT_ROLE_END:
    case abi::PT_ROLE_CATCH:
    case abi::PT_ROLE_COST:
    case abi::PT_ROLE_COST_AGAIN:
    case abi::PT_ROLE_LITERAL_BEGIN:
    case abi::PT_ROLE_RANGE_POP:
    case abi::PT_ROLE_PYTHON_END:
      break;
    case abi::PT_ROLE_OPERATOR_BEGIN:
    case abi::PT_ROLE_SEQUENCE:
      reads.registers |= hardware;
      if (in_memory) {
        const auto offset = static_cast<int16_t>(cookie >> 32 & 0xffff);
        reads.place = MemoryPlace{static_cast<unsigned>(cookie >> 24 & 0xf), offset, 8};
      }
      break;
    case abi::PT_ROLE_OPERATOR_CALL:
      reads.registers |= kKeptRegisters;
      if (point.signature != 0 && point.signature <= plan.signatures.size()) {
        reads.registers |= Bit(plan.signatures[point.signature - 1].begin >> 24 & 0xf);
      }
      reads.memory = true;
      break;
    case abi::PT_ROLE_BOXED_BEGIN:
      reads.registers |= Argument(reg) | Argument(cookie >> 32 & 0xff);
      reads.memory = true;
      break;
    case abi::PT_ROLE_BOXED_END:
    case abi::PT_ROLE_PLACED_NODE:
      reads.memory = true;
      break;
    case abi::PT_ROLE_NODE_BEGIN:
      reads.registers |= Argument(reg);
      reads.memory = true;
      break;
    case abi::PT_ROLE_SIZED_BEGIN:
      reads.registers |= Argument(reg);
      break;
    case abi::PT_ROLE_GUARD_END:
    case abi::PT_ROLE_GUARD_UNWOUND:
    case abi::PT_ROLE_ANNOTATION_GUARD:
      reads.registers |= hardware;
      break;
    case abi::PT_ROLE_SPILLED_INPUTS:  // the arguments are in the frame at that point
      reads.registers |= Bit(kRbp);
      reads.memory = true;
      break;
    case abi::PT_ROLE_PLACED_BEGIN:
    case abi::PT_ROLE_GROUP_CALL:
      reads.registers |= hardware;
      reads.memory = true;
      break;
    case abi::PT_ROLE_UNWOUND:
      reads.registers |= hardware;
      reads.place = MemoryPlace{static_cast<unsigned>(cookie >> 24 & 0xf),
                                static_cast<int16_t>(cookie >> 32 & 0xffff), 8};
      break;
    case abi::PT_ROLE_GUARD_BEGIN:
    case abi::PT_ROLE_FRAME_BEGIN:
    case abi::PT_ROLE_WORK_TITLE:
    case abi::PT_ROLE_FRAME_END:
    case abi::PT_ROLE_WORK_BEGIN:
    case abi::PT_ROLE_WORK_END:
      reads.registers |= hardware | Bit(kRsi);
      reads.memory = true;
      break;
    default:  // entries, and roles that are not known, read everything
      reads.registers |= kAllArguments | kKeptRegisters;
      reads.memory = true;
      break;
  }
  return reads;
}

std::vector<PointPatch> FindPatchWindows(const ModuleImage& image, const ModulePlan& module,
                                         const ProbePlan& plan) {
  return ModuleSearch(image, module, plan).Run();
}

}  // namespace proftrace
