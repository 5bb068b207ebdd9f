#include "symbols/plan/row_plan.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

#include "symbols/elf/code_image.h"
#include "userspace/model/torch_rules.h"

namespace proftrace {

Label LabelOfNodes() {
  Label label;
  label.kind = SpanKind::kAutograd;
  label.scope = Scope::kBackwardFunction;
  return label;
}

ProbePoint RowPlanner::PointOf(const RowProbe& probe, size_t site, uint64_t load_bias) {
  using abi::pt_u16;
  using abi::pt_u64;
  using abi::pt_u8;
  ProbePoint point;
  point.file_offset = probe.offset;
  uint32_t handle = probe.handle_register;
  if (!plan_->autograd) handle &= 0xf;  // sequence numbers are not recorded
  const bool is_node = probe.role == abi::PT_ROLE_PLACED_NODE;
  const auto offset = is_node ? static_cast<uint16_t>(offsets_.python_object)
                              : static_cast<uint16_t>(probe.handle_offset);
  point.cookie = PT_COOKIE(site, probe.role, handle, offset);
  const uint32_t inputs = inputs_ == nullptr ? 0 : inputs_->AddRow(probe.inputs, load_bias);
  if ((!probe.place && inputs == 0) || plan_->places.size() + 1 >= kMaxSites) return point;
  abi::pt_place place{};
  if (probe.place) {
    place = *probe.place;
  } else {
    place.base = abi::PT_PLACE_UNKNOWN;
    place.count = 1;
    place.form = abi::PT_PLACE_NOTHING;
  }
  if (place.base == abi::PT_PLACE_ADDRESS) place.address += load_bias;
  if (place.form == abi::PT_PLACE_PYTHON_STRING) place.text_offset = offsets_.python_text;
  if (is_node) place.address = PT_COOKIE_NODE(offsets_.node.sequence, offsets_.node.thread);
  place.inputs = inputs;
  if (probe.otherwise) {
    abi::pt_place other = *probe.otherwise;
    if (other.base == abi::PT_PLACE_ADDRESS) other.address += load_bias;
    plan_->places.push_back(other);
    place.otherwise = static_cast<uint16_t>(plan_->places.size());
  }
  plan_->places.push_back(place);
  point.place = static_cast<uint16_t>(plan_->places.size());
  return point;
}

void RowPlanner::AddRows(const ModuleFacts& facts, uint64_t load_bias,
                         absl::flat_hash_set<uint64_t>* taken, std::vector<ProbePoint>* points) {
  for (const MadeRow& row : facts.rows) {
    const bool is_free = std::none_of(row.probes.begin(), row.probes.end(), [&](const auto& probe) {
      return taken->contains(probe.offset);
    });
    const bool is_python = std::any_of(row.probes.begin(), row.probes.end(), [](const auto& probe) {
      return probe.place && probe.place->form == abi::PT_PLACE_PYTHON_STRING;
    });
    if (is_python && offsets_.python_text == 0) {
      plan_->gaps.push_back(
          {"rows of torch._C._profiler._RecordFunctionFast",
           absl::StrCat("the layout of str in Python ", plan_->python_version, " is not known")});
      continue;
    }
    if (!is_free || plan_->sites.size() > kMaxSites) continue;
    const size_t site = plan_->sites.size();
    const bool is_node = row.probes.front().role == abi::PT_ROLE_PLACED_NODE;
    Label label = is_node ? LabelOfNodes() : Label();
    label.name = row.literal;
    label.is_async = row.is_async;
    plan_->sites.push_back({std::move(label), row.symbol, ExitRule::kNone});
    bool unknown = false;
    for (const RowProbe& probe : row.probes) {
      points->push_back(PointOf(probe, site, load_bias));
      taken->insert(probe.offset);
      const uint16_t place = points->back().place;
      const bool is_told = place != 0 && plan_->places[place - 1].inputs != 0;
      unknown |= probe.inputs.kind == RowInputKind::kUnknown ||
                 (probe.inputs.kind == RowInputKind::kKernel && !is_told);
    }
    if (inputs_ != nullptr && unknown && !TakesParentsInputs(row.literal)) {
      plan_->gaps.push_back(
          {"inputs of rows of " + (row.literal.empty() ? ReadableName(row.symbol) : row.literal),
           "what they are is not clear from its code", true, row.literal});
    }
  }
  for (const RowProbe& probe : facts.row_ends) {
    if (!taken->insert(probe.offset).second) continue;
    points->push_back(PointOf(probe, 0, load_bias));
  }
}

}  // namespace proftrace
