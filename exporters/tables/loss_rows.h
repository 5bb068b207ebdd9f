// The rows and columns of the table `losses`: one row a counter of the ledger.
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "exporters/tables/column.h"
#include "userspace/model/timeline.h"

namespace proftrace {

struct LossRow {
  std::string_view ledger;
  std::string_view counter;
  uint64_t count = 0;
};

template <typename Visit>
void ForEachCell(const LossRow& row, Visit&& visit) {
  visit(Column{"ledger", "`records` or, with a GPU agent, `devices`."}, row.ledger);
  visit(Column{"counter", "The counter, as in [the ledger](ledger.md)."}, row.counter);
  visit(Column{"count", "Its value."}, row.count);
}

// Gives the rows to `add`, until it returns false.
void ForEachLossRow(const Timeline& timeline, absl::FunctionRef<bool(const LossRow&)> add);

}  // namespace proftrace
