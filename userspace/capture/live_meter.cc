#include "userspace/capture/live_meter.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace proftrace {

void LiveMeter::ObserveAnnotation(std::span<const std::byte> record) {
  abi::pt_text_record text{};
  std::memcpy(&text, record.data(), std::min(record.size(), sizeof(text)));
  const std::string_view name(text.text, std::min<size_t>(text.length, PT_TEXT_BYTES));
  if (text.length == PT_TEXT_READ_FAILED || !name.starts_with("Optimizer.step#")) return;
  const int64_t now_ns = static_cast<int64_t>(text.head.time_ns);
  if (step_tid_ == text.head.tid && last_step_ns_ != 0) {
    step_ms_ = static_cast<double>(now_ns - last_step_ns_) * 1e-6;
  }
  step_tid_ = text.head.tid;
  last_step_ns_ = now_ns;
}

uint64_t LiveMeter::busiest_thread_hits() const {
  uint64_t most = 0;
  for (const auto& [tid, hits] : hits_by_thread_) most = std::max(most, hits);
  return most;
}

}  // namespace proftrace
