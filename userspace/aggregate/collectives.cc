#include "userspace/aggregate/collectives.h"

#include <array>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "userspace/base/text.h"
#include "userspace/model/torch_rules.h"

namespace proftrace {
namespace {

using Json = nlohmann::json;
using Numbers = std::vector<int64_t>;

constexpr int kMostAncestors = 4;   // between the row and the operator that tells the collective
constexpr size_t kMostListed = 30;  // torch cuts longer lists (saveNcclMeta)
constexpr int64_t kMostRanks = 1 << 20;

// How the elements of the output follow from those of the input. Where the input is a list of
// lists, whose shapes are not recorded, or the output has shapes of its own, they follow from the
// operator's own lists of tensors.
enum class Output : uint8_t { kSame, kTimesGroup, kByGroup, kOfOutputs, kOfBothLists, kNothing };

struct CollectiveKind {
  std::string_view op;    // the operator's name without its namespace
  std::string_view name;  // the name in ProcessGroupNCCL
  Output output;
};

// The operators of c10d and _c10d_functional.
constexpr CollectiveKind kCollectiveKinds[] = {
    {"allreduce_", "allreduce", Output::kSame},
    {"allreduce_coalesced_", "allreduce_coalesced", Output::kSame},
    {"all_reduce", "allreduce", Output::kSame},
    {"all_reduce_", "allreduce", Output::kSame},
    {"all_reduce_coalesced", "allreduce_coalesced", Output::kSame},
    {"broadcast_", "broadcast", Output::kSame},
    {"broadcast", "broadcast", Output::kSame},
    {"reduce_", "reduce", Output::kSame},
    {"allgather_", "all_gather", Output::kTimesGroup},
    {"_allgather_base_", "_allgather_base", Output::kTimesGroup},
    {"all_gather_into_tensor", "_allgather_base", Output::kTimesGroup},
    {"allgather_into_tensor_coalesced_", "allgather_into_tensor_coalesced", Output::kTimesGroup},
    {"_reduce_scatter_base_", "_reduce_scatter_base", Output::kByGroup},
    {"reduce_scatter_tensor", "_reduce_scatter_base", Output::kByGroup},
    {"reduce_scatter_tensor_coalesced_", "reduce_scatter_tensor_coalesced", Output::kByGroup},
    {"reduce_scatter_", "reduce_scatter", Output::kOfOutputs},
    {"gather_", "gather", Output::kTimesGroup},
    {"scatter_", "scatter", Output::kOfOutputs},
    {"alltoall_", "all_to_all", Output::kOfBothLists},
    {"alltoall_base_", "all_to_all", Output::kSame},
    {"all_to_all_single", "all_to_all", Output::kSame},
    {"send", "send", Output::kSame},
    {"recv_", "recv", Output::kSame},
    {"", "barrier", Output::kNothing},  // only where the row itself says so
};

// c10::toString(ScalarType) by caffe2::TypeMeta::name(), and by NCCL's names in kernels
// (ncclDevKernel_AllReduce_Sum_bf16_RING_LL), of the types that NCCL knows.
struct TypeName {
  std::string_view type;
  std::string_view torch;
  std::string_view nccl;
};
constexpr TypeName kTypes[] = {
    {"float", "Float", "f32"},
    {"c10::BFloat16", "BFloat16", "bf16"},
    {"c10::Half", "Half", "f16"},
    {"double", "Double", "f64"},
    {"long int", "Long", "i64"},
    {"int", "Int", "i32"},
    {"short", "Short", ""},
    {"unsigned char", "Byte", "u8"},
    {"signed char", "Char", "i8"},
    {"c10::Float8_e4m3fn", "Float8_e4m3fn", "f8e4m3"},
    {"c10::Float8_e5m2", "Float8_e5m2", "f8e5m2"},
    {"bool", "Bool", ""},
};

Json Parse(const std::string& text) {
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::string TextAt(const Json& list, size_t index) {
  if (!list.is_array() || index >= list.size() || !list[index].is_string()) return "";
  return list[index].get<std::string>();
}

std::optional<int64_t> NumberAt(const Json& list, size_t index) {
  const std::string text = TextAt(list, index);
  int64_t number = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || end.ec != std::errc() || end.ptr != text.data() + text.size()) {
    return std::nullopt;
  }
  return number;
}

std::optional<Numbers> NumbersOf(const Json& list) {
  Numbers numbers;
  if (!list.is_array()) return std::nullopt;
  for (const Json& item : list) {
    if (!item.is_number_integer()) return std::nullopt;
    numbers.push_back(item.get<int64_t>());
  }
  return numbers;
}

std::optional<int64_t> Product(int64_t a, int64_t b) {
  if (a < 0 || b < 0 || (b != 0 && a > std::numeric_limits<int64_t>::max() / b)) {
    return std::nullopt;
  }
  return a * b;
}

std::optional<int64_t> ElementsOf(const Json& shape) {
  const std::optional<Numbers> sizes = NumbersOf(shape);
  std::optional<int64_t> elements;
  if (sizes.has_value()) elements = 1;
  for (size_t i = 0; elements.has_value() && i < sizes->size(); ++i) {
    elements = Product(*elements, (*sizes)[i]);
  }
  return elements;
}

// Returns the elements of a tensor, or of all tensors in a list; nullopt where a size is not known.
std::optional<int64_t> AllElementsOf(const Json& shape, bool is_list) {
  if (!is_list) return ElementsOf(shape);
  if (!shape.is_array() || shape.empty()) return std::nullopt;
  int64_t sum = 0;
  for (const Json& item : shape) {
    const std::optional<int64_t> elements = ElementsOf(item);
    if (!elements || *elements > std::numeric_limits<int64_t>::max() - sum) return std::nullopt;
    sum += *elements;
  }
  return sum;
}

std::string Listed(const Numbers& numbers) {
  std::string text = "[";
  for (size_t i = 0; i < numbers.size(); ++i) {
    text += i == 0 ? "" : ", ";
    if (i == kMostListed) return text + "...]";
    text += std::to_string(numbers[i]);
  }
  return text + "]";
}

struct Operator {
  const CollectiveKind* kind = nullptr;
  SpanId span = kNoSpan;
};

const CollectiveKind* KindOf(std::string_view name) {
  for (const CollectiveKind& kind : kCollectiveKinds) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

template <typename T>
std::optional<T> KeywordOf(const OperatorInputs& inputs, std::string_view name) {
  for (const KeywordValue& keyword : inputs.keywords) {
    const T* const value = std::get_if<T>(&keyword.value);
    if (keyword.name == name && value != nullptr) return *value;
  }
  return std::nullopt;
}

Operator OperatorOf(const Timeline& timeline, SpanId row) {
  SpanId above = timeline.began_in(row);
  for (int i = 0; i < kMostAncestors && above != kNoSpan; ++i) {
    const std::string_view name = timeline.label(timeline.span(above).label).name;
    for (const std::string_view space : {"c10d::", "_c10d_functional::"}) {
      if (!name.starts_with(space)) continue;
      for (const CollectiveKind& kind : kCollectiveKinds) {
        if (name.substr(space.size()) == kind.op) return {&kind, above};
      }
    }
    above = timeline.span(above).parent;
  }
  return {};
}

// The elements of input and output. `in`: those of the row's own tensors.
struct Elements {
  std::optional<int64_t> in;
  std::optional<int64_t> out;
};

Elements ElementsOf(const CollectiveKind& kind, const OperatorInputs* of_op,
                    std::optional<int64_t> in, std::optional<int64_t> group_size) {
  // The operator's first argument is the output, which is already allocated.
  const Json dims = of_op == nullptr ? Json() : Parse(of_op->dims);
  const bool has_outputs = dims.is_array() && !dims.empty();
  const std::optional<int64_t> outputs =
      has_outputs ? AllElementsOf(dims[0], /*is_list=*/true) : std::nullopt;
  switch (kind.output) {
    case Output::kSame:
      return {in, in};
    case Output::kTimesGroup:
      return {in, in && group_size ? Product(*in, *group_size) : std::nullopt};
    case Output::kByGroup:
      return {in, in && group_size ? std::optional(*in / *group_size) : std::nullopt};
    case Output::kOfOutputs:
      return {outputs && group_size ? Product(*outputs, *group_size) : std::nullopt, outputs};
    case Output::kOfBothLists:
      return {in, outputs};
    case Output::kNothing:
      return {0, 0};
  }
  return {};
}

// Returns the type that a kernel's name has between two underscores.
std::string TypeByKernel(std::string_view kernel) {
  for (const TypeName& type : kTypes) {
    if (type.nccl.empty()) continue;
    if (kernel.find("_" + std::string(type.nccl) + "_") != std::string_view::npos) {
      return std::string(type.torch);
    }
  }
  return "";
}

std::string TypeByName(std::string_view name) {
  for (const TypeName& type : kTypes) {
    if (type.type == name) return std::string(type.torch);
  }
  return "";
}

// Returns a group's ranks, by the first one and their distance. A group whose ranks are no regular
// series has a negative start or no stride.
Numbers RanksOf(const Json& concrete, size_t first, int64_t size) {
  const std::optional<int64_t> start = NumberAt(concrete, first);
  const std::optional<int64_t> stride = NumberAt(concrete, first + 1);
  if (!start || !stride || *start < 0 || *stride <= 0 || *start > kMostRanks ||
      *stride > kMostRanks || size > kMostRanks) {
    return {};
  }
  Numbers ranks;
  for (int64_t i = 0; i < size; ++i) ranks.push_back(*start + i * *stride);
  return ranks;
}

// Returns whether some versions of torch record the rank of the root or of the peer instead of the
// process's own rank.
bool MayHaveAnothersRank(std::string_view name) {
  for (const std::string_view one : {"broadcast", "reduce", "gather", "scatter", "send", "recv"}) {
    if (name == one) return true;
  }
  return false;
}

constexpr int64_t kAnyRank = -1;

template <typename Fits>
const ProcessGroup* OnlyGroup(const Timeline& timeline, Pid pid, Fits fits) {
  const ProcessGroup* found = nullptr;
  for (const Target& target : timeline.info().targets) {
    if (target.pid != pid) continue;
    for (const ProcessGroup& group : target.process_groups) {
      if (group.name.empty() || !fits(group)) continue;
      if (found != nullptr) return nullptr;
      found = &group;
    }
  }
  return found;
}

// Returns the only group of this size in which the process has this rank; nullptr: there is none,
// or there are several.
const ProcessGroup* GroupOf(const Timeline& timeline, Pid pid, int64_t rank, int64_t size) {
  return OnlyGroup(timeline, pid, [&](const ProcessGroup& group) {
    return group.size == size && (rank == kAnyRank || group.rank == rank);
  });
}

// Returns the only group with this name; nullptr: there is none, or there are several, because
// names are used again (split_group, meshes).
const ProcessGroup* GroupOfName(const Timeline& timeline, Pid pid, std::string_view name,
                                std::optional<int64_t> size) {
  return OnlyGroup(timeline, pid, [&](const ProcessGroup& group) {
    return group.name == name && (!size || group.size == *size);
  });
}

// Adds the group: the one that the row names, or else the only one that fits.
void AddGroup(const Timeline& timeline, Pid pid, const OperatorInputs& inputs, Numbers ranks,
              Collective* collective) {
  const auto name = KeywordOf<std::string>(inputs, "Process Group Name");
  const ProcessGroup* group = nullptr;
  if (name && !name->empty()) {
    group = GroupOfName(timeline, pid, *name, collective->group_size);
    collective->group = *name;
    const auto description = KeywordOf<std::string>(inputs, "Process Group Description");
    collective->group_description =
        description ? *description : (group != nullptr ? group->description : "");
  } else if (collective->rank && collective->group_size) {
    const int64_t own_rank = MayHaveAnothersRank(collective->name) ? kAnyRank : *collective->rank;
    group = GroupOf(timeline, pid, own_rank, *collective->group_size);
    if (group != nullptr) {
      collective->group = group->name;
      collective->group_description = group->description;
    }
  }
  if (ranks.empty() && group != nullptr) ranks.assign(group->ranks.begin(), group->ranks.end());
  if (ranks.empty()) return;
  collective->ranks = Listed(ranks);
  // For a message between two ranks torch records the peer's rank in the group.
  const std::optional<int64_t> peer = collective->rank;
  if (!peer || *peer < 0 || static_cast<size_t>(*peer) >= ranks.size()) return;
  if (collective->name == "send") collective->destination = ranks[*peer];
  if (collective->name == "recv") collective->source = ranks[*peer];
}

// The inputs of a row record_param_comms (ParamCommsUtils.hpp): [tensors,] number, [group,] rank,
// collective, splits of the input and of the output, then (2.3 and later) the first rank and the
// stride, and the size (2.1 and later).
struct CallFacts {
  Json dims;
  bool is_list = false;
  bool has_series = false;
  std::optional<int64_t> in;
  std::optional<Numbers> in_split;
  std::optional<Numbers> out_split;
};

// Adds the elements of the output, and the name that a collective with unequal parts has.
void AddElements(const CallFacts& call, const CollectiveKind& kind,
                 const OperatorInputs* of_operator, Collective* collective) {
  const Elements elements = ElementsOf(kind, of_operator, call.in, collective->group_size);
  collective->in_elements = elements.in;
  collective->out_elements = elements.out;
  const bool is_by_parts =
      kind.name == "all_to_all" && !call.is_list && call.out_split && !call.out_split->empty();
  if (is_by_parts) {
    // Rows of equal length, shared out unequally.
    collective->name = "all_to_allv";
    const std::optional<Numbers> shape = NumbersOf(call.dims[0]);
    int64_t rows = 0;
    for (const int64_t part : *call.out_split) rows += part;
    collective->out_elements =
        !shape || shape->empty() || shape->front() <= 0 || rows < 0 || !elements.in
            ? std::nullopt
            : Product(*elements.in / shape->front(), rows);
  }
  if (collective->name == "scatter" && !call.has_series) {
    std::swap(collective->in_elements, collective->out_elements);  // as torch has them before 2.3
  }
}

// Returns the index of the splits, which are the first two lists side by side; the number of
// inputs: there are no splits.
size_t PlaceOfSplits(const Json& concrete) {
  for (size_t i = 0; i + 1 < concrete.size(); ++i) {
    if (TextAt(concrete, i).starts_with('[') && TextAt(concrete, i + 1).starts_with('[')) return i;
  }
  return concrete.size();
}

std::string TypeOf(const std::string& first_type, const OperatorInputs& inputs,
                   const OperatorInputs* of_operator, std::string_view kernel) {
  std::string type = TypeByName(first_type);
  if (type.empty()) type = TypeByName(inputs.list_type);
  if (type.empty() && of_operator != nullptr) type = TypeByName(of_operator->list_type);
  return type.empty() ? TypeByKernel(kernel) : type;
}

}  // namespace

std::optional<Collective> CollectiveOfRow(const Timeline& timeline, SpanId row,
                                          std::string_view kernel) {
  if (row == kNoSpan) return std::nullopt;
  const Span& span = timeline.span(row);
  if (timeline.label(span.label).name != "record_param_comms") return std::nullopt;
  const OperatorInputs* inputs = timeline.inputs_of(row);
  if (inputs == nullptr) return std::nullopt;
  const Operator around = OperatorOf(timeline, row);
  const auto own_name = KeywordOf<std::string>(*inputs, "Collective name");
  const CollectiveKind* const kind = own_name ? KindOf(*own_name) : around.kind;
  const OperatorInputs* of_operator =
      around.kind == nullptr ? nullptr : timeline.inputs_of(around.span);
  const Json types = Parse(inputs->types);
  const Json concrete = Parse(inputs->concrete);
  CallFacts call;
  call.dims = Parse(inputs->dims);
  if ((!own_name && kind == nullptr) || !call.dims.is_array() || !concrete.is_array()) {
    return std::nullopt;
  }
  const std::string first_type = TextAt(types, 0);
  const size_t splits = PlaceOfSplits(concrete);
  const size_t after_splits = splits + 2;
  call.is_list = first_type == "TensorList";
  call.has_series = concrete.size() >= after_splits + 3;
  const bool has_tensors = !first_type.empty() && first_type != "Scalar";
  if (has_tensors && !call.dims.empty()) call.in = AllElementsOf(call.dims[0], call.is_list);
  call.in_split = NumbersOf(Parse(TextAt(concrete, splits)));
  call.out_split = NumbersOf(Parse(TextAt(concrete, splits + 1)));

  Collective collective;
  collective.name = own_name ? *own_name : std::string(kind->name);
  collective.type = TypeOf(first_type, *inputs, of_operator, kernel);
  collective.group_size = NumberAt(concrete, after_splits + (call.has_series ? 2 : 0));
  if (collective.group_size && *collective.group_size <= 0) collective.group_size.reset();
  if (splits >= 2) collective.rank = NumberAt(concrete, splits - 2);
  collective.sequence = KeywordOf<int64_t>(*inputs, "Seq");
  collective.is_p2p = KeywordOf<bool>(*inputs, "Is P2P");
  if (kind != nullptr) AddElements(call, *kind, of_operator, &collective);
  // ProcessGroupNCCL::barrier() records this type.
  if (collective.type.empty() && collective.name == "barrier") collective.type = "Byte";
  if (call.in_split) collective.in_split = Listed(*call.in_split);
  if (call.out_split) collective.out_split = Listed(*call.out_split);
  Numbers ranks;
  if (call.has_series && collective.group_size) {
    ranks = RanksOf(concrete, after_splits, *collective.group_size);
    if (!ranks.empty()) {
      collective.first_rank = ranks.front();
      collective.stride = NumberAt(concrete, after_splits + 1);
    }
  }
  AddGroup(timeline, timeline.thread(span.thread).pid, *inputs, std::move(ranks), &collective);
  return collective;
}

std::optional<Collective> CollectiveOf(const Timeline& timeline, SpanId op,
                                       std::string_view kernel) {
  std::optional<Collective> collective = CollectiveOfRow(timeline, op, kernel);
  return collective && collective->is_whole() ? collective : std::nullopt;
}

namespace {

// The works of gloo by the name behind the colon in their titles, and how their outputs follow.
// `op`: a part of the name of the operators that make them, or the whole name where it ends with
// "_"; others may do so as well, as a reduce_scatter that is an all_reduce of copies.
enum class WorkOutput : uint8_t { kSame, kGathered, kOfOperator, kToRoot, kFromRoot };
struct WorkKind {
  std::string_view title;
  std::string_view op;
  WorkOutput output;
  size_t place_of_rank = 0;  // of the root or the peer among the operator's arguments; 0 = none
};

constexpr WorkKind kWorkKinds[] = {
    {"all_reduce", "allreduce", WorkOutput::kSame},
    {"sparse_all_reduce", "allreduce", WorkOutput::kSame},
    {"broadcast", "broadcast", WorkOutput::kSame, 2},
    {"reduce", "reduce_", WorkOutput::kSame, 3},
    {"all_gather", "allgather", WorkOutput::kGathered},
    {"reduce_scatter", "reduce_scatter", WorkOutput::kOfOperator},
    {"all_to_all", "alltoall", WorkOutput::kOfOperator},
    {"gather", "gather_", WorkOutput::kToRoot, 3},
    {"scatter", "scatter_", WorkOutput::kFromRoot, 3},
    {"send", "send", WorkOutput::kSame, 2},
    {"recv", "recv_", WorkOutput::kSame, 2},
    {"recvAnySource", "recv_any", WorkOutput::kSame},
};

const WorkKind* KindOfWork(std::string_view title) {
  if (!IsTitleOfWork(title)) return nullptr;
  for (const WorkKind& kind : kWorkKinds) {
    if (kind.title == title.substr(title.find(':') + 1)) return &kind;
  }
  return nullptr;
}

// Adds up the elements of the inputs that are tensors or lists of tensors. nullopt: there is none,
// or their number is not known.
std::optional<int64_t> ElementsOfInputs(const OperatorInputs& inputs) {
  const Json dims = Parse(inputs.dims);
  const Json types = Parse(inputs.types);
  std::optional<int64_t> sum;
  for (size_t i = 0; dims.is_array() && i < dims.size(); ++i) {
    const std::string type = TextAt(types, i);
    if (type.empty() || type == "Scalar" || type == "ScalarList") continue;
    const std::optional<int64_t> elements = AllElementsOf(dims[i], type == "TensorList");
    if (!elements || *elements > std::numeric_limits<int64_t>::max() - sum.value_or(0)) {
      return std::nullopt;
    }
    sum = sum.value_or(0) + *elements;
  }
  return sum;
}

// Returns the elements of the operator's first argument, which is its output.
std::optional<int64_t> ElementsOfOutput(const OperatorInputs& inputs) {
  const Json dims = Parse(inputs.dims);
  if (!dims.is_array() || dims.empty()) return std::nullopt;
  return AllElementsOf(dims[0], TextAt(Parse(inputs.types), 0) == "TensorList");
}

// Returns the process group that a work's row names; null: it names none, or several have its name.
const ProcessGroup* GroupOfWork(const Timeline& timeline, SpanId row,
                                const OperatorInputs* inputs) {
  if (inputs == nullptr) return nullptr;
  const auto name = KeywordOf<std::string>(*inputs, "Process Group Name");
  if (!name) return nullptr;
  const Pid pid = timeline.thread(timeline.span(row).thread).pid;
  return GroupOfName(timeline, pid, *name, KeywordOf<int64_t>(*inputs, "Group size"));
}

void AddElementsOfWork(const WorkKind& kind, const OperatorInputs& call, const ProcessGroup* group,
                       WorkFacts* facts) {
  const bool is_root = group != nullptr && facts->rank == group->rank;
  const auto times_group = [group](const std::optional<int64_t>& elements) {
    return elements && group != nullptr ? Product(*elements, group->size) : std::nullopt;
  };
  switch (kind.output) {
    case WorkOutput::kSame:
      facts->out_elements = facts->in_elements;
      break;
    case WorkOutput::kGathered:
      facts->out_elements = times_group(facts->in_elements);
      break;
    case WorkOutput::kOfOperator:
      facts->out_elements = ElementsOfOutput(call);
      break;
    case WorkOutput::kToRoot:
      if (group == nullptr || !facts->rank) break;
      facts->out_elements = is_root ? times_group(facts->in_elements) : 0;
      break;
    case WorkOutput::kFromRoot:
      facts->in_elements.reset();
      facts->out_elements = ElementsOfOutput(call);
      if (group == nullptr || !facts->rank) break;
      facts->in_elements = is_root ? times_group(facts->out_elements) : 0;
      break;
  }
}

}  // namespace

WorkFacts FactsOfWork(const Timeline& timeline, SpanId row) {
  WorkFacts facts;
  const WorkKind* const kind = KindOfWork(timeline.label(timeline.span(row).label).name);
  if (kind == nullptr) return facts;
  const OperatorInputs* const inputs = timeline.inputs_of(row);
  const ProcessGroup* const group = GroupOfWork(timeline, row, inputs);
  const Operator around = OperatorOf(timeline, row);
  const bool is_own =
      around.kind != nullptr &&
      (kind->op.ends_with('_') ? around.kind->op == kind->op : Contains(around.kind->op, kind->op));
  const OperatorInputs* const call = is_own ? timeline.inputs_of(around.span) : nullptr;
  if (inputs != nullptr) {
    facts.in_elements = ElementsOfInputs(*inputs);
    facts.type = TypeOf(TextAt(Parse(inputs->types), 0), *inputs, call, "");
  } else if (call != nullptr) {
    facts.type = TypeByName(call->list_type);
  }
  if (call != nullptr && kind->place_of_rank != 0) {
    facts.rank = NumberAt(Parse(call->concrete), kind->place_of_rank);
    if (facts.rank && *facts.rank < 0) facts.rank.reset();
  }
  if (call != nullptr || kind->output == WorkOutput::kSame ||
      kind->output == WorkOutput::kGathered) {
    AddElementsOfWork(*kind, call == nullptr ? OperatorInputs() : *call, group, &facts);
  }
  if (!facts.rank || group == nullptr) return facts;
  const auto peer = static_cast<size_t>(*facts.rank);
  if (peer >= group->ranks.size()) return facts;
  if (kind->title == "send") facts.destination = group->ranks[peer];
  if (kind->title == "recv") facts.source = group->ranks[peer];
  return facts;
}

}  // namespace proftrace
