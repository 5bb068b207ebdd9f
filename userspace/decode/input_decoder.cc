#include "userspace/decode/input_decoder.h"

#include <array>
#include <bit>
#include <cstring>
#include <string_view>
#include <utility>

#include "userspace/base/text.h"
#include "userspace/decode/keyword_format.h"
#include "userspace/model/name_limits.h"

namespace proftrace {
namespace {

constexpr size_t kMostWords = 16384;

std::vector<uint64_t> Words(std::span<const std::byte> record) {
  std::vector<uint64_t> words((record.size() - PT_INPUTS_HEAD_BYTES) / 8);
  if (!words.empty()) {
    std::memcpy(words.data(), record.data() + PT_INPUTS_HEAD_BYTES, words.size() * 8);
  }
  return words;
}

}  // namespace

void InputDecoder::OnRecord(std::span<const std::byte> record) {
  abi::pt_inputs_record head{};
  std::memcpy(&head, record.data(), PT_INPUTS_HEAD_BYTES);
  const std::vector<uint64_t> words = Words(record);
  if (head.head.kind == abi::PT_KEYWORDS) {
    OnKeywords(head, words);
    return;
  }
  Pending& pending = pending_[head.head.tid];
  if (head.head.kind == abi::PT_INPUTS_MORE) {
    const bool is_keyword = pending.keywords.has_value();
    std::vector<uint64_t>& values = is_keyword ? pending.keywords->values : pending.values;
    const size_t most = is_keyword ? pending.keywords->words : pending.words;
    // The words are used only where none are missing before them.
    if (head.words != values.size() || head.words + words.size() > most) return;
    values.insert(values.end(), words.begin(), words.end());
    return;
  }
  pending = Pending{head.head.sp, head.head.site, head.count, head.words, head.spilled != 0, words};
  // Nothing is shown where something was not as expected, or the end was cut off.
  if (head.flags != 0 || head.words > kMostWords) {
    NoteUnread(head.flags != 0 ? head.flags : uint64_t{abi::PT_INPUTS_CUT});
    pending_.erase(head.head.tid);
  }
}

void InputDecoder::OnKeywords(const abi::pt_inputs_record& head, std::vector<uint64_t> words) {
  Pending& pending = pending_[head.head.tid];
  const bool is_same = pending.sp == head.head.sp && pending.site == head.head.site;
  if (!is_same) pending = Pending{head.head.sp, head.head.site};  // its PT_INPUTS was not usable
  if (head.flags != 0 || head.words > kMostWords) {
    NoteUnread(head.flags != 0 ? head.flags : uint64_t{abi::PT_INPUTS_CUT});
    return;
  }
  pending.keywords = PendingKeywords{head.count, head.words, head.spilled != 0, std::move(words)};
}

bool InputDecoder::HasUserScope(const abi::pt_record& begin) const {
  const auto it = pending_.find(begin.tid);
  if (it == pending_.end() || it->second.sp != begin.sp || it->second.site != begin.site) {
    return false;
  }
  const std::optional<PendingKeywords>& keywords = it->second.keywords;
  if (!keywords || !keywords->tell_scope) return false;
  const auto values = FormatKeywords(keywords->values, keywords->count);
  if (!values) return false;
  for (const KeywordValue& keyword : *values) {
    const auto* text = std::get_if<std::string>(&keyword.value);
    if (keyword.name == "scope" && text != nullptr && *text == "user_scope") return true;
  }
  return false;
}

// Counts the first of several reasons, because values after it were not looked at.
void InputDecoder::NoteUnread(uint64_t flags) {
  ++ledger_->inputs_unread;
  const auto bit = static_cast<size_t>(std::countr_zero(flags));
  if (bit < unread_.size()) ++unread_[bit];
}

std::vector<InputDecoder::Unread> InputDecoder::unread() const {
  constexpr std::array<std::string_view, 4> kReasons = {
      "there are more values than a record has room for", "they could not be read",
      "something is no tensor or list of the kind that it should be",
      "what torch shows of an argument is not known (a list or tuple in another one, a dict whose "
      "keys are no texts)"};
  std::vector<Unread> unread;
  for (size_t bit = 0; bit < unread_.size(); ++bit) {
    if (unread_[bit] != 0) unread.push_back({unread_[bit], kReasons[bit]});
  }
  if (grouped_ != 0) {
    unread.push_back({grouped_,
                      "they came after 256 MB of different ones: each number that was passed is a "
                      "*, shapes are what they are"});
  }
  return unread;
}

void InputDecoder::OnCall(const abi::pt_record& head, uint64_t facts,
                          std::span<const std::byte> record) {
  if (facts >> 56 != 0) {
    NoteUnread(facts >> 56);
    pending_.erase(head.tid);
    return;
  }
  std::vector<uint64_t> words = Words(record);
  const auto count = static_cast<uint32_t>(words.size());
  pending_[head.tid] =
      Pending{head.sp, head.site, static_cast<uint32_t>(facts >> PT_CALL_SEQUENCE_BITS & 0xff),
              count,   false,     std::move(words)};
}

InputsId InputDecoder::Take(const abi::pt_record& begin, const InputForm& form, bool* waits) {
  *waits = false;
  if (pending_.empty()) return kNoInputs;
  const auto it = pending_.find(begin.tid);
  if (it == pending_.end()) return kNoInputs;
  Pending& pending = it->second;
  const std::optional<PendingKeywords>& keywords = pending.keywords;
  const bool is_complete = pending.values.size() == pending.words &&
                           (!keywords || keywords->values.size() == keywords->words);
  if (pending.sp != begin.sp || pending.site != begin.site || !is_complete) {
    ++ledger_->inputs_unread;  // the begin that it belongs to, or a part of it, was lost
    pending_.erase(it);
    return kNoInputs;
  }
  if (pending.has_spilled) {
    pending.form = form;
    *waits = true;
    return kNoInputs;
  }
  // torch shows no inputs for a call without arguments.
  const bool is_empty = pending.count == 0 && (!keywords || keywords->count == 0);
  const InputsId id = is_empty ? kNoInputs : Intern(pending, {}, form);
  pending_.erase(it);
  return id;
}

InputsId InputDecoder::FinishWaiting(uint32_t tid, std::span<const uint64_t> doubles) {
  const auto it = pending_.find(tid);
  if (it == pending_.end() || !it->second.form.has_value()) return kNoInputs;
  const InputsId id = Intern(it->second, doubles, *it->second.form);
  pending_.erase(it);
  return id;
}

InputsId InputDecoder::Intern(const Pending& pending, std::span<const uint64_t> doubles,
                              const InputForm& form) {
  key_.clear();
  const auto add = [this](const void* data, size_t bytes) {
    key_.append(static_cast<const char*>(data), bytes);
  };
  add(&form, sizeof(form));
  add(&pending.count, sizeof(pending.count));
  add(pending.values.data(), pending.values.size() * 8);
  add(doubles.data(), doubles.size() * 8);
  if (pending.keywords) {
    add(&pending.keywords->count, sizeof(pending.keywords->count));
    add(pending.keywords->values.data(), pending.keywords->values.size() * 8);
  }
  if (const auto known = ids_.find(key_); known != ids_.end()) return known->second;
  std::optional<OperatorInputs> inputs =
      pending.count == 0 ? OperatorInputs()
                         : FormatInputs(pending.values, pending.count, doubles, form);
  auto keywords = pending.keywords
                      ? FormatKeywords(pending.keywords->values, pending.keywords->count)
                      : std::vector<KeywordValue>();
  if (!inputs || !keywords) {
    ++ledger_->inputs_unread;
    return kNoInputs;
  }
  if (table_bytes_ > most_bytes_) return GroupOf(*std::move(inputs));
  inputs->keywords = *std::move(keywords);
  const InputsId id{static_cast<uint32_t>(table_.size())};
  table_bytes_ += 2 * key_.size() + inputs->dims.size() + inputs->shapes.size() +
                  inputs->types.size() + inputs->strides.size() + inputs->concrete.size() +
                  sizeof(*inputs);
  table_.push_back(*std::move(inputs));
  ids_.emplace(key_, id);
  return id;
}

InputsId InputDecoder::GroupOf(OperatorInputs inputs) {
  inputs.concrete = GroupOfName(inputs.concrete).value_or(inputs.concrete);
  std::string key;
  for (const std::string* text : {&inputs.dims, &inputs.shapes, &inputs.types, &inputs.strides,
                                  &inputs.concrete, &inputs.list_type}) {
    key.append(*text).append(1, '\0');
  }
  const auto known = groups_.find(key);
  const bool has_room =
      groups_.size() < kMostNameGroups && table_bytes_ <= most_bytes_ + most_bytes_ / 8;
  if (known == groups_.end() && !has_room) {
    ++ledger_->inputs_unread;
    return kNoInputs;
  }
  ++grouped_;
  if (known != groups_.end()) return known->second;
  const InputsId id{static_cast<uint32_t>(table_.size())};
  table_bytes_ += 2 * key.size() + sizeof(inputs);
  groups_.emplace(std::move(key), id);
  table_.push_back(std::move(inputs));
  return id;
}

InputsId InputDecoder::WithKeywords(InputsId inputs, std::vector<KeywordValue> keywords) {
  if (keywords.empty() || table_bytes_ > most_bytes_) return inputs;
  OperatorInputs with = table_[Raw(inputs)];
  table_bytes_ += sizeof(with) + with.dims.size() + with.shapes.size() + with.types.size() +
                  with.strides.size() + with.concrete.size();
  for (KeywordValue& keyword : keywords) {
    table_bytes_ += sizeof(keyword) + keyword.name.size();
    with.keywords.push_back(std::move(keyword));
  }
  const InputsId id{static_cast<uint32_t>(table_.size())};
  table_.push_back(std::move(with));
  return id;
}

namespace {

// Returns the list that holds only the last element of a JSON list.
std::string LastElement(std::string_view list) {
  size_t begin = 1;
  int depth = 0;
  bool is_text = false;
  for (size_t i = 0; i < list.size(); ++i) {
    const char c = list[i];
    if (is_text) {
      if (c == '\\') ++i;
      is_text = c != '"';
    } else if (c == '"') {
      is_text = true;
    } else if (c == '[') {
      ++depth;
    } else if (c == ']') {
      --depth;
    } else if (c == ',' && depth == 1) {
      begin = i + 1;
    }
  }
  if (begin == 1 || list.size() < 2) return std::string(list);
  return "[" + std::string(StripBlanks(list.substr(begin)));
}

}  // namespace

InputsId InputDecoder::LastOf(InputsId inputs) {
  if (Raw(inputs) == 0 || Raw(inputs) >= table_.size()) return inputs;
  const auto [known, is_new] = last_.try_emplace(Raw(inputs), inputs);
  if (!is_new) return known->second;
  const OperatorInputs& all = table_[Raw(inputs)];
  OperatorInputs last = {LastElement(all.dims),     LastElement(all.shapes),
                         LastElement(all.types),    LastElement(all.strides),
                         LastElement(all.concrete), ""};
  if (last.types == all.types) return inputs;
  const InputsId id{static_cast<uint32_t>(table_.size())};
  table_.push_back(std::move(last));
  return known->second = id;
}

}  // namespace proftrace
