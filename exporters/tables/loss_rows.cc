#include "exporters/tables/loss_rows.h"

namespace proftrace {

void ForEachLossRow(const Timeline& timeline, absl::FunctionRef<bool(const LossRow&)> add) {
  bool is_wanted = true;
  LossRow row;
  const auto counter = [&](std::string_view name, uint64_t count) {
    row.counter = name;
    row.count = count;
    is_wanted = is_wanted && add(row);
  };
  row.ledger = "records";
  ForEachCounter(timeline.ledger(), counter);
  if (!timeline.has_device_records()) return;
  row.ledger = "devices";
  ForEachDeviceCounter(timeline.device_ledger(), counter);
}

}  // namespace proftrace
