#include "userspace/fleet/row_choice.h"

#include <algorithm>

#include "userspace/base/text.h"

namespace proftrace {

bool RowChoice::HasRank(std::optional<int32_t> rank) const {
  if (ranks.empty()) return true;
  return rank && std::any_of(ranks.begin(), ranks.end(), [&](const auto& range) {
           return range.first <= *rank && *rank <= range.second;
         });
}

bool RowChoice::HasCategory(std::string_view category) const {
  return categories.empty() ||
         std::find(categories.begin(), categories.end(), category) != categories.end();
}

std::optional<int64_t> StepOf(const SourceEvent& event) {
  std::string_view name = event.name;
  if (event.phase != 'X' || !ConsumeText(&name, "ProfilerStep")) return std::nullopt;
  name = StripBlanks(name);
  if (!ConsumeText(&name, "#")) return std::nullopt;
  return ParseNumber<int64_t>(StripBlanks(name));
}

bool IsGpuWork(const SourceEvent& event) {
  return event.phase == 'X' && (event.category == "kernel" || event.category == "gpu_memcpy" ||
                                event.category == "gpu_memset");
}

bool IsInSummary(const SourceEvent& event) {
  return event.phase == 'M' || (event.phase == 'X' && (event.category == "user_annotation" ||
                                                       event.category == "gpu_user_annotation"));
}

void StepTimes::Add(uint32_t process, int64_t step, int64_t begin_ns, int64_t end_ns) {
  const auto [it, is_new] = steps_.try_emplace({process, step}, begin_ns, end_ns);
  if (is_new) return;
  it->second.first = std::min(it->second.first, begin_ns);
  it->second.second = std::max(it->second.second, end_ns);
}

std::optional<std::pair<int64_t, int64_t>> StepTimes::Window(uint32_t process, int64_t first,
                                                             int64_t last) const {
  std::optional<std::pair<int64_t, int64_t>> window;
  for (auto it = steps_.lower_bound({process, first});
       it != steps_.end() && it->first.first == process && it->first.second <= last; ++it) {
    if (!window) window = it->second;
    window->first = std::min(window->first, it->second.first);
    window->second = std::max(window->second, it->second.second);
  }
  return window;
}

}  // namespace proftrace
