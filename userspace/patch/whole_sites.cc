#include "userspace/patch/whole_sites.h"

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "bpf/abi/records.h"

namespace proftrace {
namespace {

constexpr uint32_t kFirstFamily = 0x10000;  // greater than every site's number

// Returns the family of the role: rows whose ends are recorded at places that belong to no single
// site, and are matched with their begins by a handle. 0: the row's ends have the site of its
// begin.
uint32_t FamilyOf(uint8_t role) {
  switch (role) {
    case abi::PT_ROLE_GUARD_BEGIN:
    case abi::PT_ROLE_GUARD_END:
    case abi::PT_ROLE_GUARD_UNWOUND:
    case abi::PT_ROLE_ANNOTATION_GUARD:
    case abi::PT_ROLE_WORK_TITLE:
    case abi::PT_ROLE_WORK_BEGIN:
    case abi::PT_ROLE_WORK_END:
      return kFirstFamily;
    case abi::PT_ROLE_FRAME_BEGIN:
    case abi::PT_ROLE_FRAME_END:
      return kFirstFamily + 1;
    case abi::PT_ROLE_RANGE_PUSH:
    case abi::PT_ROLE_RANGE_POP:
      return kFirstFamily + 2;
    case abi::PT_ROLE_BOXED_BEGIN:
    case abi::PT_ROLE_BOXED_END:
      return kBoxedGroup;
    default:
      return 0;
  }
}

// Whether the role is an end that all sites of a family share. A row that an exception ends is also
// closed where the exception is caught.
bool IsSharedEnd(uint8_t role) {
  return role == abi::PT_ROLE_GUARD_END || role == abi::PT_ROLE_WORK_END ||
         role == abi::PT_ROLE_FRAME_END || role == abi::PT_ROLE_RANGE_POP;
}

class WholeSites {
 public:
  WholeSites(const ProbePlan& plan, PlanSpots* spots) : plan_(plan), spots_(spots) {}

  void Keep() {
    for (const ModulePlan& module : plan_.modules) {
      for (const ProbePoint& point : module.points) {
        const uint32_t family = FamilyOf(RoleOf(point));
        if (family != 0 && SiteOf(point) != 0) families_[SiteOf(point)] = family;
      }
    }
    for (const UnpatchedPoint& left : spots_->unpatched) {
      const ProbePoint& point = plan_.modules[left.module].points[left.point];
      if (SiteOf(point) != 0) partial_.insert(SiteOf(point));
      if (IsSharedEnd(RoleOf(point))) partial_.insert(FamilyOf(RoleOf(point)));
    }
    std::vector<PatchSpot> whole;
    for (PatchSpot& spot : spots_->spots) {
      const ProbePoint& point = plan_.modules[spot.module].points[spot.point];
      spot.group = GroupOf(point);
      // An end whose begin was not recorded is ignored, so shared ends may keep their jumps.
      const bool is_partial = partial_.contains(SiteOf(point)) ||
                              (partial_.contains(spot.group) && !IsSharedEnd(RoleOf(point)));
      if (is_partial) {
        spots_->unpatched.push_back(
            {spot.module, spot.point, "another place of the same rows cannot have a jump"});
      } else {
        whole.push_back(std::move(spot));
      }
    }
    spots_->spots = std::move(whole);
  }

 private:
  uint32_t GroupOf(const ProbePoint& point) const {
    if (const uint32_t family = FamilyOf(RoleOf(point)); family != 0) return family;
    const auto known = families_.find(SiteOf(point));
    return known != families_.end() ? known->second : SiteOf(point);
  }

  const ProbePlan& plan_;
  PlanSpots* spots_;
  std::map<uint16_t, uint32_t> families_;  // the family of each site that has one
  std::set<uint32_t> partial_;  // the numbers of sites and families of which a point has no jump
};

}  // namespace

void KeepWholeSites(const ProbePlan& plan, PlanSpots* spots) { WholeSites(plan, spots).Keep(); }

}  // namespace proftrace
