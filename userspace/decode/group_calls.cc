#include "userspace/decode/group_calls.h"

#include <string>
#include <utility>

namespace proftrace {
namespace {

constexpr size_t kMostListed = 30;  // torch cuts longer lists (saveNcclMeta)

std::string RanksText(const std::vector<int>& ranks) {
  std::string text = "[";
  for (size_t i = 0; i < ranks.size(); ++i) {
    text += i == 0 ? "" : ", ";
    if (i == kMostListed) return text + "...]";
    text += std::to_string(ranks[i]);
  }
  return text + "]";
}

}  // namespace

void GroupCalls::OnRecord(const abi::pt_pair_record& record) {
  const std::pair place(record.head.pid, record.handle);
  uint64_t& last = last_[place];
  if (record.object == 0) {  // a message, which takes no number
    numbers_[record.head.tid] = {record.head.pid, record.handle, 0, last != UINT64_MAX};
    return;
  }
  // A group counts up. Where it does not, another group was made at the place of an older one.
  const bool is_same = record.object > last;
  last = is_same ? record.object : UINT64_MAX;
  numbers_[record.head.tid] = {record.head.pid, record.handle, record.object, is_same};
}

std::vector<KeywordValue> GroupCalls::Take(uint32_t pid, uint32_t tid, bool is_message) {
  std::vector<KeywordValue> values;
  const auto at = numbers_.find(tid);
  if (at == numbers_.end()) return values;
  const Number call = at->second;
  numbers_.erase(at);
  if (call.pid != pid || is_message != (call.number == 0)) return values;
  if (call.number != 0) {
    values.push_back({"Seq", static_cast<int64_t>(call.number)});
    values.push_back({"Is P2P", false});
  }
  const auto found = metadata_.groups_at.find({pid, call.group});
  if (!call.is_same_group || found == metadata_.groups_at.end() || !found->second) return values;
  const ProcessGroup& group = *found->second;
  if (!group.name.empty()) values.push_back({"Process Group Name", group.name});
  if (!group.description.empty()) {
    values.push_back({"Process Group Description", group.description});
  }
  values.push_back({"Group size", int64_t{group.size}});
  if (!group.ranks.empty()) values.push_back({"Process Group Ranks", RanksText(group.ranks)});
  return values;
}

}  // namespace proftrace
