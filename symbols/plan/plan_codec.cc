#include "symbols/plan/plan_codec.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "symbols/elf/elf_segments.h"
#include "symbols/process/cache_bytes.h"

namespace proftrace {
namespace {

// The most items of a list. torch has some thousand operators, and each has some places.
constexpr uint32_t kMostItems = 4 << 20;
// The most segments that ElfFile accepts.
constexpr size_t kMostSegments = 64;

class PlanWriter {
 public:
  void Flag(bool value) { out_.Number(static_cast<uint8_t>(value ? 1 : 0)); }
  template <typename T>
  void Number(T value) {
    out_.Number(value);
  }
  void Text(std::string_view text) { out_.Text(text); }
  // Writes all bytes of a structure of the ABI.
  template <typename T>
  void Plain(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    out_.Text({reinterpret_cast<const char*>(&value), sizeof(value)});
  }
  template <typename List, typename Put>
  void Each(const List& list, Put put) {
    out_.Number(static_cast<uint32_t>(list.size()));
    for (const auto& item : list) put(item);
  }
  std::string Take() { return out_.Take(); }

 private:
  CacheWriter out_;
};

class PlanReader {
 public:
  explicit PlanReader(std::string_view bytes) : in_(bytes) {}
  template <typename T>
  T Number() {
    return in_.Number<T>();
  }
  bool Flag() { return in_.Number<uint8_t>() != 0; }
  std::string Text() { return in_.Text(); }
  template <typename T>
  T Plain() {
    T value{};
    const std::string bytes = in_.Text();
    if (bytes.size() != sizeof(value)) {
      is_sound_ = false;
      return value;
    }
    std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  }
  // Reads a number; one above `most` makes the plan invalid.
  template <typename T>
  T Below(uint64_t most) {
    const T value = in_.Number<T>();
    if (value > most) is_sound_ = false;
    return value;
  }
  template <typename Take>
  void Each(Take take) {
    const uint32_t count = Below<uint32_t>(kMostItems);
    for (uint32_t i = 0; i < count && ok(); ++i) take();
  }
  void Spoil() { is_sound_ = false; }
  bool ok() const { return is_sound_ && in_.ok(); }
  bool is_whole() const { return ok() && in_.at_end(); }

 private:
  CacheReader in_;
  bool is_sound_ = true;
};

void PutLabel(const Label& label, PlanWriter* out) {
  out->Text(label.name);
  out->Text(label.overload_name);
  out->Number(static_cast<uint8_t>(label.category));
  out->Number(static_cast<uint8_t>(label.scope));
  out->Number(static_cast<uint8_t>(label.kind));
  out->Flag(label.is_async);
}

Label TakeLabel(PlanReader* in) {
  Label label;
  label.name = in->Text();
  label.overload_name = in->Text();
  label.category =
      static_cast<Category>(in->Below<uint8_t>(static_cast<uint8_t>(Category::kPythonFunction)));
  label.scope =
      static_cast<Scope>(in->Below<uint8_t>(static_cast<uint8_t>(Scope::kStaticRuntimeModel)));
  label.kind =
      static_cast<SpanKind>(in->Below<uint8_t>(static_cast<uint8_t>(SpanKind::kCollection)));
  label.is_async = in->Flag();
  return label;
}

void PutState(const FileState& state, PlanWriter* out) { out->Plain(state); }

void PutFile(const FileId& file, PlanWriter* out) {
  out->Number(file.device);
  out->Number(file.inode);
  out->Number(file.time);
}

FileId TakeFile(PlanReader* in) {
  FileId file;
  file.device = in->Number<uint64_t>();
  file.inode = in->Number<uint64_t>();
  file.time = in->Number<uint32_t>();
  return file;
}

void PutPoints(const std::vector<ProbePoint>& points, PlanWriter* out) {
  out->Each(points, [out](const ProbePoint& point) {
    out->Number(point.file_offset);
    out->Number(point.cookie);
    out->Number(point.place);
    out->Number(point.signature);
  });
}

// The sizes of the lists that points refer to.
struct PlanCounts {
  uint64_t sites = 0;
  uint64_t places = 0;
  uint64_t signatures = 0;
};

void TakePoints(const PlanCounts& counts, uint64_t file_bytes, PlanReader* in,
                std::vector<ProbePoint>* points) {
  in->Each([&] {
    ProbePoint point;
    point.file_offset = in->Number<uint64_t>();
    point.cookie = in->Number<uint64_t>();
    point.place = in->Below<uint16_t>(counts.places);
    point.signature = in->Below<uint16_t>(counts.signatures);
    const bool is_next = points->empty() || points->back().file_offset < point.file_offset;
    if (!is_next || point.file_offset >= file_bytes || SiteOf(point) >= counts.sites) in->Spoil();
    points->push_back(point);
  });
}

void PutModule(const ModulePlan& module, PlanWriter* out) {
  out->Text(module.name);
  out->Text(module.build_id);
  PutFile(module.file, out);
  PutState(module.held->state(), out);
  out->Text(module.mapped_path);
  out->Number(module.load_bias);
  out->Each(module.segments, [out](const Elf64_Phdr& segment) { out->Plain(segment); });
  PutPoints(module.points, out);
  PutPoints(module.cost_points, out);
}

ModulePlan TakeModule(const PlanCounts& counts, const HeldFileOf& held_file, PlanReader* in) {
  ModulePlan module;
  module.name = in->Text();
  module.build_id = in->Text();
  module.file = TakeFile(in);
  module.held = held_file(in->Plain<FileState>());
  module.mapped_path = in->Text();
  module.load_bias = in->Number<uint64_t>();
  in->Each([&] { module.segments.push_back(in->Plain<Elf64_Phdr>()); });
  if (module.segments.size() > kMostSegments ||
      !std::all_of(module.segments.begin(), module.segments.end(), IsLoadedFromFile)) {
    in->Spoil();
  }
  if (module.held == nullptr) {
    in->Spoil();
    return module;
  }
  const auto bytes = static_cast<uint64_t>(module.held->state().bytes);
  TakePoints(counts, bytes, in, &module.points);
  TakePoints(counts, bytes, in, &module.cost_points);
  return module;
}

void PutFacts(const ProbePlan& plan, PlanWriter* out) {
  out->Flag(plan.operators_whole);
  out->Number(plan.unlisted_operators);
  out->Number(plan.operator_count);
  out->Number(plan.python_node_vtable);
  out->Text(plan.torch_version);
  out->Text(plan.torch_build_id);
  out->Text(plan.python_version);
  out->Flag(plan.old_string_abi);
  out->Flag(plan.from_cache);
  out->Flag(plan.has_memory_probes);
  out->Number(plan.memory_site);
  out->Flag(plan.has_cuda_calls);
  out->Flag(plan.has_agent);
  out->Number(plan.torch_data.address);
  out->Number(plan.torch_data.bytes);
  out->Number(plan.dispatcher_slot);
  out->Flag(plan.has_input_probes);
  out->Number(plan.node_signature);
  out->Number(plan.node_signature_number);
  out->Flag(plan.autograd.has_value());
  if (plan.autograd) out->Plain(*plan.autograd);
}

void TakeFacts(const PlanCounts& counts, PlanReader* in, ProbePlan* plan) {
  plan->operators_whole = in->Flag();
  plan->unlisted_operators = in->Number<uint32_t>();
  plan->operator_count = in->Number<uint32_t>();
  plan->python_node_vtable = in->Number<uint64_t>();
  plan->torch_version = in->Text();
  plan->torch_build_id = in->Text();
  plan->python_version = in->Text();
  plan->old_string_abi = in->Flag();
  plan->from_cache = in->Flag();
  plan->has_memory_probes = in->Flag();
  plan->memory_site = in->Number<uint16_t>();
  plan->has_cuda_calls = in->Flag();
  plan->has_agent = in->Flag();
  plan->torch_data.address = in->Number<uint64_t>();
  plan->torch_data.bytes = in->Number<uint64_t>();
  plan->dispatcher_slot = in->Number<uint64_t>();
  plan->has_input_probes = in->Flag();
  plan->node_signature = in->Below<uint16_t>(counts.signatures);
  plan->node_signature_number = in->Number<uint16_t>();
  if (in->Flag()) plan->autograd = in->Plain<abi::pt_autograd_layout>();
  if (plan->memory_site >= counts.sites) in->Spoil();
}

}  // namespace

std::string EncodePlan(const ProbePlan& plan) {
  PlanWriter out;
  out.Each(plan.sites, [&out](const SiteInfo& site) {
    PutLabel(site.label, &out);
    out.Text(site.symbol);
    out.Number(static_cast<uint8_t>(site.exit_rule));
  });
  out.Each(plan.places, [&out](const abi::pt_place& place) { out.Plain(place); });
  out.Each(plan.signatures, [&out](const abi::pt_signature& signature) { out.Plain(signature); });
  out.Each(plan.row_inputs, [&out](const abi::pt_row_inputs& inputs) { out.Plain(inputs); });
  out.Each(plan.operator_signatures, [&out](const OperatorSignature& signature) {
    out.Number(signature.operator_def);
    out.Number(signature.signature);
  });
  out.Each(plan.modules, [&out](const ModulePlan& module) { PutModule(module, &out); });
  out.Text(EncodeOperators(plan.operators));
  out.Each(plan.gaps, [&out](const PlanGap& gap) {
    out.Text(gap.feature);
    out.Text(gap.reason);
    out.Flag(gap.is_of_code);
    out.Text(gap.row);
  });
  out.Each(plan.files, [&out](const FileId& file) { PutFile(file, &out); });
  PutFacts(plan, &out);
  return out.Take();
}

std::optional<ProbePlan> DecodePlan(std::string_view bytes, const HeldFileOf& held_file) {
  PlanReader in(bytes);
  ProbePlan plan;
  in.Each([&] {
    SiteInfo site;
    site.label = TakeLabel(&in);
    site.symbol = in.Text();
    site.exit_rule =
        static_cast<ExitRule>(in.Below<uint8_t>(static_cast<uint8_t>(ExitRule::kReturn)));
    plan.sites.push_back(std::move(site));
  });
  in.Each([&] { plan.places.push_back(in.Plain<abi::pt_place>()); });
  in.Each([&] { plan.signatures.push_back(in.Plain<abi::pt_signature>()); });
  for (const abi::pt_signature& signature : plan.signatures) {
    if (signature.count > PT_MOST_ARGUMENTS || signature.stack_words > PT_MOST_STACK_WORDS) {
      in.Spoil();
    }
  }
  if (plan.sites.size() > kMaxSites + 1) in.Spoil();
  const PlanCounts counts{plan.sites.size(), plan.places.size(), plan.signatures.size()};
  in.Each([&] {
    plan.row_inputs.push_back(in.Plain<abi::pt_row_inputs>());
    const abi::pt_row_inputs& inputs = plan.row_inputs.back();
    if (inputs.signature > counts.signatures || inputs.count > PT_ROW_WORDS) in.Spoil();
  });
  for (const abi::pt_place& place : plan.places) {
    if (place.inputs > plan.row_inputs.size() || place.otherwise > counts.places ||
        place.count > PT_PLACE_OFFSETS) {
      in.Spoil();
    }
  }
  in.Each([&] {
    const auto operator_def = in.Number<uint64_t>();
    plan.operator_signatures.push_back({operator_def, in.Below<uint16_t>(counts.signatures)});
  });
  in.Each([&] { plan.modules.push_back(TakeModule(counts, held_file, &in)); });
  std::optional<std::vector<OperatorInfo>> operators = DecodeOperators(in.Text());
  if (!operators) return std::nullopt;
  plan.operators = *std::move(operators);
  in.Each([&] {
    PlanGap gap;
    gap.feature = in.Text();
    gap.reason = in.Text();
    gap.is_of_code = in.Flag();
    gap.row = in.Text();
    plan.gaps.push_back(std::move(gap));
  });
  in.Each([&] { plan.files.insert(TakeFile(&in)); });
  TakeFacts(counts, &in, &plan);
  if (!in.is_whole()) return std::nullopt;
  return plan;
}

std::string EncodeOperators(const std::vector<OperatorInfo>& operators) {
  PlanWriter out;
  out.Each(operators, [&out](const OperatorInfo& info) {
    out.Number(info.address);
    out.Text(info.name);
    out.Text(info.overload_name);
    out.Text(info.schema);
  });
  return out.Take();
}

std::optional<std::vector<OperatorInfo>> DecodeOperators(std::string_view bytes) {
  PlanReader in(bytes);
  std::vector<OperatorInfo> operators;
  in.Each([&] {
    OperatorInfo info;
    info.address = in.Number<uint64_t>();
    info.name = in.Text();
    info.overload_name = in.Text();
    info.schema = in.Text();
    if (!operators.empty() && operators.back().address > info.address) in.Spoil();
    operators.push_back(std::move(info));
  });
  if (!in.is_whole()) return std::nullopt;
  return operators;
}

}  // namespace proftrace
