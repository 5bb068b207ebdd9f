// torch's names of collectives and of elements. One operation has many names: "_allgather_base",
// "all_gather_into_tensor", "gloo:all_gather"; versions of torch change them, and ranks of one job
// may have unlike ones.
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

// Returns the family of ProcessGroup*'s name, of a work's title and of an operator's name of c10d;
// nullopt: it is none ("wait", "init").
std::optional<CollectiveFamily> CollectiveFamilyOf(std::string_view name);

// "allreduce", "reduce_scatter".
std::string_view CollectiveFamilyName(CollectiveFamily family);
// What depends on what.
CollectiveKind KindOfFamily(CollectiveFamily family);
// Whether torch gives the rank of the root (of the peer: send, recv) where it gives one.
inline bool HasRoot(CollectiveFamily family) {
  return family == CollectiveFamily::kBroadcast || family == CollectiveFamily::kScatter ||
         family == CollectiveFamily::kReduce || family == CollectiveFamily::kGather;
}
inline bool IsMessage(CollectiveFamily family) {
  return family == CollectiveFamily::kSend || family == CollectiveFamily::kRecv;
}
// Whether all ranks put in as many elements: what one rank tells can be compared with another.
inline bool IsOfEqualParts(CollectiveFamily family) {
  return family != CollectiveFamily::kScatter && family != CollectiveFamily::kGather &&
         family != CollectiveFamily::kAllToAll && family != CollectiveFamily::kBarrier;
}

// A type of elements.
struct ElementType {
  std::string_view name;  // c10::ScalarType's: "Float"
  int64_t bytes = 0;
};

// Returns the type by c10::ScalarType's name or by the one that Kineto's "Input type" has
// ("c10::BFloat16", "long int"); null: not known.
const ElementType* FindElementType(std::string_view name);

}  // namespace proftrace
