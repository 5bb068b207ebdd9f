#include "userspace/fleet/merged_ids.h"

namespace proftrace {

OwnedId::OwnedId(const SourceId& id) {
  if (const int64_t* value = std::get_if<int64_t>(&id)) {
    number = *value;
  } else {
    text = std::get<std::string_view>(id);
    if (text.empty()) text = "\"\"";
  }
}

MergedIds::MergedIds(uint32_t processes) : processes_(processes) {}

void MergedIds::BeginPart(uint32_t process) {
  process_ = process;
  pids_.clear();
  tids_.clear();
  given_tids_.clear();
  slots_.clear();
  long_ids_.clear();
  long_slot_ = 0;
  next_long_id_ = 0;
}

int64_t MergedIds::PidOf(const SourceId& pid) {
  const auto [it, is_new] = pids_.try_emplace(OwnedId(pid));
  if (!is_new) return it->second;
  int64_t& given = pids_of_process_[process_];
  it->second = given < kPidsOfProcess ? (int64_t{process_} + 1) * kPidsOfProcess + given++
                                      : (int64_t{processes_} + 1) * kPidsOfProcess + pids_beyond_++;
  return it->second;
}

int64_t MergedIds::TidOf(int64_t merged_pid, const SourceId& tid) {
  const auto [it, is_new] = tids_[merged_pid].try_emplace(OwnedId(tid));
  if (!is_new) return it->second;
  std::set<int64_t>& given = given_tids_[merged_pid];
  const int64_t* own = std::get_if<int64_t>(&tid);
  it->second = own != nullptr && *own >= 0 && *own <= UINT32_MAX ? *own : kFirstMadeTid;
  while (!given.insert(it->second).second) {
    it->second = it->second < kFirstMadeTid ? kFirstMadeTid : it->second + 1;
  }
  return it->second;
}

uint64_t MergedIds::IdOf(std::string_view category, const SourceId& id) {
  const int64_t* number = std::get_if<int64_t>(&id);
  const auto slot = slots_.find(category);
  const uint64_t of_category =
      slot != slots_.end() ? slot->second : (slots_[std::string(category)] = next_slot_++);
  if (number != nullptr && *number >= 0 && *number < int64_t{1} << kIdBits) {
    return of_category << kIdBits | static_cast<uint64_t>(*number);
  }
  const auto [it, is_new] = long_ids_.try_emplace({of_category, OwnedId(id)});
  if (is_new) {
    if (long_slot_ == 0 || next_long_id_ >> kIdBits != 0) {
      long_slot_ = next_slot_++;
      next_long_id_ = 0;
    }
    it->second = long_slot_ << kIdBits | next_long_id_++;
  }
  return it->second;
}

}  // namespace proftrace
