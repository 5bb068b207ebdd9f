#include "userspace/capture/kernel/cookie_table.h"

#include <bpf/bpf.h>

#include <algorithm>
#include <iterator>

#include "bpf/abi/probe_cookie.h"

namespace proftrace {

std::shared_ptr<CookieTable> CookieTable::Make(int map_fd, uint32_t entries) {
  return std::shared_ptr<CookieTable>(new CookieTable(map_fd, entries));
}

std::shared_ptr<const CookieRoom> CookieTable::Put(std::vector<uint64_t>* cookies,
                                                   std::optional<Pid> pid) {
  const auto count = static_cast<uint32_t>(cookies->size());
  const std::optional<uint32_t> first = Take(count);
  if (!first.has_value()) return nullptr;
  const std::shared_ptr<const CookieRoom> room(
      new CookieRoom{*first, count}, [table = shared_from_this()](const CookieRoom* mine) {
        table->Free(*mine);
        delete mine;
      });
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t index = *first + i;
    const abi::pt_probe_cookie entry{(*cookies)[i], pid.has_value() ? Raw(*pid) : 0, 0};
    if (bpf_map_update_elem(map_fd_, &index, &entry, BPF_ANY) != 0) return nullptr;
    (*cookies)[i] = index;
  }
  return room;
}

std::optional<uint32_t> CookieTable::Take(uint32_t count) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(free_.begin(), free_.end(),
                                  [count](const auto& row) { return row.second >= count; });
  if (found == free_.end()) return std::nullopt;
  const auto [first, entries] = *found;
  free_.erase(found);
  if (entries > count) free_.emplace(first + count, entries - count);
  return first;
}

void CookieTable::Free(const CookieRoom& room) {
  const std::lock_guard lock(mutex_);
  auto row = free_.emplace(room.first, room.count).first;
  const auto next = std::next(row);
  if (next != free_.end() && row->first + row->second == next->first) {
    row->second += next->second;
    free_.erase(next);
  }
  if (row == free_.begin()) return;
  const auto before = std::prev(row);
  if (before->first + before->second != row->first) return;
  before->second += row->second;
  free_.erase(row);
}

}  // namespace proftrace
