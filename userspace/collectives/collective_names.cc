#include "userspace/collectives/collective_names.h"

#include "userspace/base/text.h"

namespace proftrace {
namespace {

struct FamilyName {
  std::string_view part;  // a part of a name
  CollectiveFamily family;
};

// The first of these that a name contains decides, because "reduce" is also in "reduce_scatter".
constexpr FamilyName kFamilyNames[] = {
    {"reduce_scatter", CollectiveFamily::kReduceScatter},
    {"allreduce", CollectiveFamily::kAllReduce},
    {"all_reduce", CollectiveFamily::kAllReduce},
    {"allgather", CollectiveFamily::kAllGather},
    {"all_gather", CollectiveFamily::kAllGather},
    {"alltoall", CollectiveFamily::kAllToAll},
    {"all_to_all", CollectiveFamily::kAllToAll},
    {"barrier", CollectiveFamily::kBarrier},
    {"broadcast", CollectiveFamily::kBroadcast},
    {"scatter", CollectiveFamily::kScatter},
    {"gather", CollectiveFamily::kGather},
    {"reduce", CollectiveFamily::kReduce},
    {"recv", CollectiveFamily::kRecv},
    {"send", CollectiveFamily::kSend},
};

struct TypeOfElements {
  std::string_view cpp_name;  // caffe2::TypeMeta::name()
  ElementType type;
};

constexpr TypeOfElements kElementTypes[] = {
    {"float", {"Float", 4}},
    {"c10::BFloat16", {"BFloat16", 2}},
    {"c10::Half", {"Half", 2}},
    {"double", {"Double", 8}},
    {"long int", {"Long", 8}},
    {"long", {"Long", 8}},
    {"int", {"Int", 4}},
    {"short", {"Short", 2}},
    {"unsigned char", {"Byte", 1}},
    {"signed char", {"Char", 1}},
    {"bool", {"Bool", 1}},
    {"c10::Float8_e4m3fn", {"Float8_e4m3fn", 1}},
    {"c10::Float8_e5m2", {"Float8_e5m2", 1}},
    {"c10::complex<float>", {"ComplexFloat", 8}},
    {"c10::complex<double>", {"ComplexDouble", 16}},
};

}  // namespace

std::optional<CollectiveFamily> CollectiveFamilyOf(std::string_view name) {
  for (const FamilyName& one : kFamilyNames) {
    if (Contains(name, one.part)) return one.family;
  }
  return std::nullopt;
}

std::string_view CollectiveFamilyName(CollectiveFamily family) {
  switch (family) {
    case CollectiveFamily::kAllReduce:
      return "allreduce";
    case CollectiveFamily::kAllGather:
      return "allgather";
    case CollectiveFamily::kReduceScatter:
      return "reduce_scatter";
    case CollectiveFamily::kAllToAll:
      return "all_to_all";
    case CollectiveFamily::kBarrier:
      return "barrier";
    case CollectiveFamily::kBroadcast:
      return "broadcast";
    case CollectiveFamily::kScatter:
      return "scatter";
    case CollectiveFamily::kReduce:
      return "reduce";
    case CollectiveFamily::kGather:
      return "gather";
    case CollectiveFamily::kSend:
      return "send";
    case CollectiveFamily::kRecv:
      return "recv";
  }
  return "";
}

CollectiveKind KindOfFamily(CollectiveFamily family) {
  switch (family) {
    case CollectiveFamily::kAllReduce:
    case CollectiveFamily::kAllGather:
    case CollectiveFamily::kReduceScatter:
    case CollectiveFamily::kAllToAll:
    case CollectiveFamily::kBarrier:
      return CollectiveKind::kAllToAll;
    case CollectiveFamily::kBroadcast:
    case CollectiveFamily::kScatter:
      return CollectiveKind::kBroadcast;
    case CollectiveFamily::kReduce:
    case CollectiveFamily::kGather:
      return CollectiveKind::kReduce;
    case CollectiveFamily::kSend:
      return CollectiveKind::kSend;
    case CollectiveFamily::kRecv:
      return CollectiveKind::kRecv;
  }
  return CollectiveKind::kNoDependence;
}

const ElementType* FindElementType(std::string_view name) {
  for (const TypeOfElements& one : kElementTypes) {
    if (one.type.name == name || one.cpp_name == name) return &one.type;
  }
  return nullptr;
}

}  // namespace proftrace
