#include "userspace/aggregate/collectives.h"

#include <array>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace proftrace {
namespace {

using Json = nlohmann::json;
using Numbers = std::vector<int64_t>;

constexpr int kMostAncestors = 4;   // between the row and the operator that says which collective
constexpr size_t kMostListed = 30;  // torch cuts longer lists (saveNcclMeta)
constexpr int64_t kMostRanks = 1 << 20;

// How many elements come out, by those that go in; or what the operator's own lists of tensors
// tell, where what goes in is a list of lists, of which neither torch nor we tell the shapes, or
// what comes out has shapes of its own.
enum class Output : uint8_t { kSame, kTimesGroup, kByGroup, kOfOutputs, kOfBothLists };

struct CollectiveKind {
  std::string_view op;    // the operator's name without its namespace
  std::string_view name;  // ProcessGroupNCCL's
  Output output;
};

// Operators of c10d and _c10d_functional.
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

// Elements in and out. `in`: of the row's own tensors.
struct Elements {
  std::optional<int64_t> in;
  std::optional<int64_t> out;
};

Elements ElementsOf(const Operator& op, const OperatorInputs* of_op, std::optional<int64_t> in,
                    int64_t group_size) {
  // The operator's first argument is what comes out, and has been allocated.
  const Json dims = of_op == nullptr ? Json() : Parse(of_op->dims);
  const bool has_outputs = dims.is_array() && !dims.empty();
  const std::optional<int64_t> outputs =
      has_outputs ? AllElementsOf(dims[0], /*is_list=*/true) : std::nullopt;
  switch (op.kind->output) {
    case Output::kSame:
      return {in, in};
    case Output::kTimesGroup:
      return {in, in ? Product(*in, group_size) : in};
    case Output::kByGroup:
      return {in, in ? std::optional(*in / group_size) : in};
    case Output::kOfOutputs:
      return {outputs ? Product(*outputs, group_size) : outputs, outputs};
    case Output::kOfBothLists:
      return {in, outputs};
  }
  return {};
}

// A part of the kernel's name between two underscores.
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

// A group's ranks: one that is no regular series has a negative start or no stride.
std::string RanksOf(const Json& concrete, size_t first, int64_t size) {
  const std::optional<int64_t> start = NumberAt(concrete, first);
  const std::optional<int64_t> stride = NumberAt(concrete, first + 1);
  if (!start || !stride || *start < 0 || *stride <= 0 || *start > kMostRanks ||
      *stride > kMostRanks || size > kMostRanks) {
    return "";
  }
  Numbers ranks;
  for (int64_t i = 0; i < size && ranks.size() <= kMostListed; ++i) {
    ranks.push_back(*start + i * *stride);
  }
  return Listed(ranks);
}

// Whether torch gives the rank of the root or of the peer (in some versions) instead of the own
// one.
bool MayHaveAnothersRank(std::string_view name) {
  for (const std::string_view one : {"broadcast", "reduce", "gather", "scatter", "send", "recv"}) {
    if (name == one) return true;
  }
  return false;
}

constexpr int64_t kAnyRank = -1;

// The group of that size in which the process has that rank, if there is but one.
const ProcessGroup* GroupOf(const Timeline& timeline, Pid pid, int64_t rank, int64_t size) {
  const ProcessGroup* found = nullptr;
  for (const Target& target : timeline.info().targets) {
    if (target.pid != pid) continue;
    for (const ProcessGroup& group : target.process_groups) {
      if (group.size != size || group.name.empty()) continue;
      if (rank != kAnyRank && group.rank != rank) continue;
      if (found != nullptr) return nullptr;
      found = &group;
    }
  }
  return found;
}

}  // namespace

std::optional<Collective> CollectiveOf(const Timeline& timeline, SpanId op,
                                       std::string_view kernel) {
  if (op == kNoSpan) return std::nullopt;
  const Span& row = timeline.span(op);
  if (timeline.label(row.label).name != "record_param_comms") return std::nullopt;
  const OperatorInputs* inputs = timeline.inputs_of(op);
  const Operator around = OperatorOf(timeline, op);
  if (inputs == nullptr || around.kind == nullptr) return std::nullopt;
  const OperatorInputs* of_operator = timeline.inputs_of(around.span);

  // ParamCommsUtils.hpp: [tensors,] number, group, rank, collective, splits of the input and of the
  // output, then (2.3 and later) the first rank and the stride, and the size (2.1 and later).
  const Json dims = Parse(inputs->dims);
  const Json types = Parse(inputs->types);
  const Json concrete = Parse(inputs->concrete);
  if (!dims.is_array() || !concrete.is_array()) return std::nullopt;
  const std::string first_type = TextAt(types, 0);
  const bool is_list = first_type == "TensorList";
  std::string type = TypeByName(first_type);
  if (type.empty()) type = TypeByName(inputs->list_type);
  if (type.empty() && of_operator != nullptr) type = TypeByName(of_operator->list_type);
  if (type.empty()) type = TypeByKernel(kernel);
  constexpr size_t kBeforeSplits = 5;  // with the tensors
  const size_t after_splits = kBeforeSplits + 2;
  const bool has_series = concrete.size() >= after_splits + 3;
  const std::optional<int64_t> size = NumberAt(concrete, after_splits + (has_series ? 2 : 0));
  const std::optional<int64_t> rank = NumberAt(concrete, 3);
  if (type.empty() || !size || *size <= 0) return std::nullopt;
  const auto [in, all_out] = ElementsOf(
      around, of_operator, dims.empty() ? std::nullopt : AllElementsOf(dims[0], is_list), *size);
  if (!in) return std::nullopt;

  Collective collective;
  collective.name = std::string(around.kind->name);
  collective.type = std::move(type);
  collective.in_elements = *in;
  collective.group_size = *size;
  collective.rank = rank;
  const std::optional<Numbers> in_split = NumbersOf(Parse(TextAt(concrete, kBeforeSplits)));
  const std::optional<Numbers> out_split = NumbersOf(Parse(TextAt(concrete, kBeforeSplits + 1)));
  std::optional<int64_t> out = all_out;
  if (collective.name == "all_to_all" && !is_list && out_split && !out_split->empty()) {
    // Rows of equal length, shared out unequally.
    collective.name = "all_to_allv";
    const std::optional<Numbers> shape = NumbersOf(dims[0]);
    int64_t rows = 0;
    for (const int64_t part : *out_split) rows += part;
    out = !shape || shape->empty() || shape->front() <= 0 || rows < 0
              ? std::nullopt
              : Product(*in / shape->front(), rows);
  }
  if (!out) return std::nullopt;
  collective.out_elements = *out;
  if (collective.name == "scatter" && !has_series) {
    std::swap(collective.in_elements, collective.out_elements);  // as torch has them before 2.3
  }
  if (in_split) collective.in_split = Listed(*in_split);
  if (out_split) collective.out_split = Listed(*out_split);
  if (has_series) collective.ranks = RanksOf(concrete, after_splits, *size);
  const Pid pid = timeline.thread(row.thread).pid;
  const ProcessGroup* group = nullptr;
  if (rank) {
    const int64_t own_rank = MayHaveAnothersRank(collective.name) ? kAnyRank : *rank;
    group = GroupOf(timeline, pid, own_rank, *size);
  }
  if (group != nullptr) {
    collective.group = group->name;
    collective.group_description = group->description;
  }
  return collective;
}

}  // namespace proftrace
