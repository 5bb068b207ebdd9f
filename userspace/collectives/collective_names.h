// Reads torch's names of collectives and of element types. One operation has many names:
// "_allgather_base", "all_gather_into_tensor", "gloo:all_gather". Versions of torch change them,
// and ranks of one job may use different ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "userspace/fleet_clock/fleet_input.h"

namespace proftrace {

enum class CollectiveFamily : uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBarrier,
  kBroadcast,
  kScatter,
  kReduce,
  kGather,
  kSend,
  kRecv,
};

// Returns the family of a collective by any of its names: that of a ProcessGroup function, a work's
// title, or c10d's operator. nullopt where the name is not that of a collective ("wait", "init").
std::optional<CollectiveFamily> CollectiveFamilyOf(std::string_view name);

// Returns the family's name: "allreduce", "reduce_scatter".
std::string_view CollectiveFamilyName(CollectiveFamily family);
// Returns the kind of the family, which says which ranks wait for which.
CollectiveKind KindOfFamily(CollectiveFamily family);
// Returns whether the rank in torch's record of the call is the root's (IsMessage(): the peer's).
inline bool HasRoot(CollectiveFamily family) {
  return family == CollectiveFamily::kBroadcast || family == CollectiveFamily::kScatter ||
         family == CollectiveFamily::kReduce || family == CollectiveFamily::kGather;
}
inline bool IsMessage(CollectiveFamily family) {
  return family == CollectiveFamily::kSend || family == CollectiveFamily::kRecv;
}
// Returns whether all ranks put in equally many elements, so that the counts of two ranks can be
// compared.
inline bool IsOfEqualParts(CollectiveFamily family) {
  return family != CollectiveFamily::kScatter && family != CollectiveFamily::kGather &&
         family != CollectiveFamily::kAllToAll && family != CollectiveFamily::kBarrier;
}

// A type of tensor elements.
struct ElementType {
  std::string_view name;  // c10::ScalarType's: "Float"
  int64_t bytes = 0;
};

// Returns the type by the name that c10::ScalarType or Kineto's "Input type" has for it
// ("c10::BFloat16", "long int"); null where the name is not known.
const ElementType* FindElementType(std::string_view name);

}  // namespace proftrace
