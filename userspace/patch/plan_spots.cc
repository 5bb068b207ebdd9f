#include "userspace/patch/plan_spots.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "bpf/abi/records.h"
#include "symbols/elf/elf_segments.h"
#include "symbols/plan/window_cache.h"
#include "symbols/process/process_maps.h"
#include "symbols/x86/patch_windows.h"
#include "userspace/patch/python_end.h"

namespace proftrace {
namespace {

constexpr uint32_t kPlainWords = sizeof(abi::pt_record) / 8;
constexpr std::string_view kPythonLibrary = "libtorch_python.";
// The offset of tp_name in PyTypeObject: PyVarObject is three words in every CPython with a GIL.
constexpr int32_t kTypeNameOffset = 24;

// Returns the kind of the plain record that a point writes; nullopt: its record has more in it.
std::optional<uint8_t> PlainKind(const ProbePoint& point) {
  switch (RoleOf(point)) {
    case abi::PT_ROLE_BEGIN:
      return abi::PT_SPAN_BEGIN;
    case abi::PT_ROLE_END:
      return abi::PT_SPAN_END;
    case abi::PT_ROLE_CATCH:
      return abi::PT_CATCH;
    case abi::PT_ROLE_LITERAL_BEGIN:
      return abi::PT_LITERAL_BEGIN;
    default:
      return std::nullopt;
  }
}

// Whether a job may read the value at the point's place itself. Names and operators that the code
// keeps in variables of its own live as long as the code does. Any other name, which nobody reads
// when there is no profiler, may be gone when the job reads it.
bool CanReadPlace(const ProbePoint& point, const std::vector<abi::pt_place>& places) {
  if (point.place == 0) return true;
  if (point.place > places.size()) return false;
  const abi::pt_place& place = places[point.place - 1];
  if (place.inputs != 0) return false;
  // The place holds the operator or the node that is about to be called.
  if (RoleOf(point) == abi::PT_ROLE_PLACED_BEGIN || RoleOf(point) == abi::PT_ROLE_PLACED_NODE) {
    return place.form == abi::PT_PLACE_WORD && place.base <= abi::PT_PLACE_ADDRESS;
  }
  return place.form == abi::PT_PLACE_NOTHING || place.form == abi::PT_PLACE_PYTHON_TYPE ||
         (place.form == abi::PT_PLACE_C_STRING && place.base == abi::PT_PLACE_ADDRESS);
}

// Whether the recorder in the job can make the point's record as the BPF program does
// (bpf/job/job_recorder.c).
bool HasFullRecord(const ProbePoint& point, const ProbePlan& plan,
                   const std::vector<abi::pt_place>& places) {
  switch (RoleOf(point)) {
    case abi::PT_ROLE_OPERATOR_CALL:
    case abi::PT_ROLE_INPUTS_BEGIN:
    case abi::PT_ROLE_SPILLED_INPUTS:
      return point.signature != 0 && point.signature <= plan.signatures.size();
    case abi::PT_ROLE_NODE_BEGIN:
    case abi::PT_ROLE_BOXED_BEGIN:
    case abi::PT_ROLE_BOXED_END:
      return point.signature <= plan.signatures.size();
    case abi::PT_ROLE_GUARD_BEGIN:
    case abi::PT_ROLE_PLACED_BEGIN:
    case abi::PT_ROLE_PLACED_NODE:
      return CanReadPlace(point, places);
    case abi::PT_ROLE_GUARD_END:
    case abi::PT_ROLE_GUARD_UNWOUND:
    case abi::PT_ROLE_ANNOTATION_GUARD:
    case abi::PT_ROLE_WORK_END:
    case abi::PT_ROLE_UNWOUND:
    case abi::PT_ROLE_SEQUENCE:
    case abi::PT_ROLE_SIZED_BEGIN:
    case abi::PT_ROLE_OPERATOR_BEGIN:
    case abi::PT_ROLE_ALLOCATION:
    case abi::PT_ROLE_FREE:
    case abi::PT_ROLE_CPU_OUT_OF_MEMORY:
    case abi::PT_ROLE_DEVICE_MEMORY:
    case abi::PT_ROLE_DEVICE_OUT_OF_MEMORY:
      return true;
    default:
      return false;
  }
}

// Whether the point is a boxed operator's. All these points belong together, because an
// annotation's begin is recorded at an operator's begin, and its handle at the end.
bool IsBoxed(const ProbePoint& point) {
  return RoleOf(point) == abi::PT_ROLE_BOXED_BEGIN || RoleOf(point) == abi::PT_ROLE_BOXED_END;
}

// Returns the point's cookie with the number that the place or the signature has in the job's
// tables; the kernel's programs number them in another way.
uint64_t JobCookie(const ProbePoint& point) {
  const uint16_t number = point.place != 0 ? point.place : point.signature;
  if (number == 0) return point.cookie;
  return (point.cookie & ~PT_COOKIE_PLACE(0xffff)) | PT_COOKIE_PLACE(number);
}

class SpotFinder {
 public:
  SpotFinder(const ProbePlan& plan, const std::vector<abi::pt_place>& places,
             const std::vector<MappedFile>& files, const std::string& cache_directory)
      : plan_(plan), places_(places), files_(files), cache_(cache_directory) {}

  PlanSpots Run() {
    for (size_t m = 0; m < plan_.modules.size(); ++m) AddModule(m);
    const bool is_one_left =
        std::any_of(out_.unpatched.begin(), out_.unpatched.end(), [this](const auto& point) {
          return IsBoxed(plan_.modules[point.module].points[point.point]);
        });
    if (is_one_left) LeaveBoxed();
    return std::move(out_);
  }

 private:
  void LeaveBoxed() {
    for (const PatchSpot& spot : out_.spots) {
      if (spot.group == kBoxedGroup)
        Leave(spot.module, spot.point, "one that goes with it has no room");
    }
    std::erase_if(out_.spots, [](const PatchSpot& spot) { return spot.group == kBoxedGroup; });
  }

  void Leave(size_t module, size_t point, std::string_view reason) {
    out_.unpatched.push_back({module, point, std::string(reason)});
  }

  void LeaveAll(size_t module, std::string_view reason) {
    for (size_t p = 0; p < plan_.modules[module].points.size(); ++p) Leave(module, p, reason);
  }

  void AddModule(size_t m) {
    const ModulePlan& module = plan_.modules[m];
    if (module.points.empty()) return;
    const auto mapped =
        std::find_if(files_.begin(), files_.end(), [&module](const MappedFile& file) {
          return file.device == module.file.device && file.inode == module.file.inode &&
                 file.path.ends_with(module.name);
        });
    if (mapped == files_.end() || module.file.time != 0) {
      return LeaveAll(m, "its file is not mapped once");
    }
    const std::optional<uint64_t> bias = LoadBias(module.segments, *mapped);
    if (!bias.has_value()) return LeaveAll(m, "where it is mapped does not fit its file");
    const std::vector<PointPatch> patches = FindKeptWindows(module, plan_, cache_);
    for (size_t p = 0; p < patches.size(); ++p) {
      const std::optional<PatchWindow>& window = patches[p].window;
      if (window.has_value() &&
          !IsOwnCodeOfFile(module.segments, *mapped, window->address, window->size, *bias)) {
        Leave(m, p, "what lies there is not this process's own mapping of the file");
        continue;
      }
      AddPoint(m, p, patches[p], *bias);
    }
    // If the file has not changed, the bytes that the spots have taken from it are those that were
    // analysed.
    if (module.held->IsUnchanged()) return;
    std::erase_if(out_.spots, [m](const PatchSpot& spot) { return spot.module == m; });
    std::erase_if(out_.unpatched, [m](const auto& point) { return point.module == m; });
    LeaveAll(m, "its file was changed after it was analysed");
  }

  void AddPoint(size_t m, size_t p, const PointPatch& patch, uint64_t bias) {
    const ModulePlan& module = plan_.modules[m];
    const ProbePoint& point = module.points[p];
    const std::optional<uint8_t> kind = PlainKind(point);
    if (!kind.has_value() && !HasFullRecord(point, plan_, places_)) {
      return Leave(m, p, "its record is made by the kernel's probe alone");
    }
    if (!patch.window.has_value()) return Leave(m, p, patch.reason);
    if (patch.window->loses_reads && !kind.has_value()) {
      return Leave(m, p, "what it reads has changed where there is room");
    }
    PatchSpot spot;
    spot.bias = bias;
    spot.window = *patch.window;
    const std::optional<uint64_t> offset = FileOffsetIn(module.segments, spot.window.address);
    spot.original.resize(spot.window.size);
    if (!offset.has_value() || module.held->ReadAt(*offset, spot.original.data(),
                                                   spot.original.size()) != spot.original.size()) {
      return Leave(m, p, "its code cannot be read");
    }
    if (kind.has_value()) {
      spot.info = SiteOf(point) | uint32_t{*kind} << 16 | kPlainWords << 24;
    } else {
      spot.cookie = JobCookie(point);
    }
    if (RoleOf(point) == abi::PT_ROLE_OPERATOR_CALL) {
      spot.cookie &= 0xffffff;
      spot.cookie |= plan_.signatures[point.signature - 1].begin;
      spot.signature = point.signature;
    }
    if (IsBoxed(point)) spot.group = kBoxedGroup;
    spot.module = m;
    spot.point = p;
    out_.spots.push_back(std::move(spot));
  }

  const ProbePlan& plan_;
  const std::vector<abi::pt_place>& places_;
  const std::vector<MappedFile>& files_;
  const WindowCache cache_;
  PlanSpots out_;
};

}  // namespace

uint32_t AnnotationStep(const ProbePlan& plan, const OperatorInfo& info) {
  if (info.name == "profiler::_record_function_exit") return abi::PT_ANNOTATION_EXIT;
  if (info.name != "profiler::_record_function_enter" &&
      info.name != "profiler::_record_function_enter_new") {
    return 0;
  }
  uint32_t step = abi::PT_ANNOTATION_ENTER;
  if (plan.old_string_abi) step |= abi::PT_ANNOTATION_OLD_STRINGS;
  return step;
}

bool AddAnnotations(const ProbePlan& plan, const std::vector<OperatorInfo>& operators,
                    JobFacts* facts) {
  bool is_new = false;
  for (const OperatorInfo& info : operators) {
    const uint32_t step = AnnotationStep(plan, info);
    if (step == 0) continue;
    for (JobFacts::AnnotationOperator& known : facts->annotations) {
      if (known.address == info.address) break;
      if (known.address != 0) continue;
      known = {info.address, step};
      is_new = true;
      break;
    }
  }
  return is_new;
}

JobFacts FactsOf(const ProbePlan& plan) {
  JobFacts facts;
  if (plan.autograd.has_value()) facts.autograd = *plan.autograd;
  facts.python_nodes[0] = plan.python_node_vtable;
  AddAnnotations(plan, plan.operators, &facts);
  return facts;
}

namespace {

// Changes `place` if it is the name of a Python type to which a register or a slot of the
// function's own frame refers: the place then gives the type itself, which lives as long as the
// function runs.
void TakeTypeAlone(abi::pt_place* place) {
  const bool is_slot = place->count == 3 && ((place->base == kRsp && place->offsets[0] >= 0) ||
                                             (place->base == kRbp && place->offsets[0] < 0));
  const bool is_register =
      place->count == 2 && place->base < abi::PT_PLACE_ADDRESS && place->base != kRsp;
  if (place->form != abi::PT_PLACE_C_STRING || place->inputs != 0 || !(is_slot || is_register) ||
      place->offsets[place->count - 2] != kTypeNameOffset ||
      place->offsets[place->count - 1] != 0) {
    return;
  }
  place->form = abi::PT_PLACE_PYTHON_TYPE;
  --place->count;
  place->offsets[place->count - 1] = 0;
}

}  // namespace

std::vector<abi::pt_place> PlacesWithoutBpf(const ProbePlan& plan) {
  // Whether only rows of Python's library use the place.
  std::vector<bool> is_python(plan.places.size(), true);
  for (const ModulePlan& module : plan.modules) {
    const bool is_here = module.name.starts_with(kPythonLibrary);
    for (const ProbePoint& point : module.points) {
      if (point.place == 0 || point.place > plan.places.size()) continue;
      if (!is_here || RoleOf(point) != abi::PT_ROLE_GUARD_BEGIN) is_python[point.place - 1] = false;
    }
  }
  std::vector<abi::pt_place> places = plan.places;
  for (size_t i = 0; i < places.size(); ++i) {
    if (is_python[i]) TakeTypeAlone(&places[i]);
  }
  return places;
}

void AddStacks(const ProbePlan& plan, PlanSpots* spots) {
  std::set<uint16_t> partial;
  for (const UnpatchedPoint& left : spots->unpatched) {
    const ProbePoint& point = plan.modules[left.module].points[left.point];
    if (RoleOf(point) == abi::PT_ROLE_END) partial.insert(SiteOf(point));
  }
  for (PatchSpot& spot : spots->spots) {
    const ProbePoint& point = plan.modules[spot.module].points[spot.point];
    const uint8_t role = RoleOf(point);
    spot.has_stack = true;
    spot.ends_are_seen = !partial.contains(SiteOf(point));
    if (role == abi::PT_ROLE_BEGIN || role == abi::PT_ROLE_LITERAL_BEGIN) {
      spot.info = 0;
      spot.cookie = JobCookie(point);
    }
  }
}

bool AreEndsSeen(const ProbePlan& plan, const std::vector<PatchSpot>& spots,
                 const std::vector<size_t>& written) {
  std::set<std::pair<size_t, size_t>> has_jump;
  std::set<uint16_t> held;  // sites
  for (const size_t i : written) {
    if (IsPythonEnd(spots[i])) continue;
    has_jump.emplace(spots[i].module, spots[i].point);
    const ProbePoint& point = plan.modules[spots[i].module].points[spots[i].point];
    if (spots[i].ends_are_seen && RoleOf(point) != abi::PT_ROLE_END) held.insert(SiteOf(point));
  }
  for (size_t m = 0; m < plan.modules.size(); ++m) {
    for (size_t p = 0; p < plan.modules[m].points.size(); ++p) {
      const ProbePoint& point = plan.modules[m].points[p];
      const bool is_needed = RoleOf(point) == abi::PT_ROLE_CATCH ||
                             (RoleOf(point) == abi::PT_ROLE_END && held.contains(SiteOf(point)));
      if (is_needed && !has_jump.contains({m, p})) return false;
    }
  }
  return true;
}

absl::StatusOr<PlanSpots> FindPlanSpots(Pid pid, const ProbePlan& plan,
                                        const std::vector<abi::pt_place>& places,
                                        const std::string& cache_directory) {
  const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(pid);
  if (!mappings.ok()) return mappings.status();
  return SpotFinder(plan, places, GroupByFile(*mappings), cache_directory).Run();
}

}  // namespace proftrace
