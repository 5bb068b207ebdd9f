#include "userspace/decode/script_decoder.h"

#include "bpf/abi/read_record.h"
#include "bpf/abi/script_records.h"

namespace proftrace {
namespace {

// The most places that are kept, because a hostile job can make any number.
constexpr size_t kMostPlaces = size_t{1} << 18;

bool BeginsRow(uint8_t kind) {
  switch (kind) {
    case abi::PT_SPAN_BEGIN:
    case abi::PT_OPERATOR_CALL:
    case abi::PT_LITERAL_BEGIN:
    case abi::PT_BOXED_BEGIN:
    case abi::PT_SIZED_BEGIN:
    case abi::PT_NAMED_BEGIN:
    case abi::PT_ANNOTATION_BEGIN:
    case abi::PT_GUARD_BEGIN:
    case abi::PT_FRAME_BEGIN:
    case abi::PT_WORK_BEGIN:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool ScriptDecoder::OnRecord(std::span<const std::byte> record, uint32_t image) {
  const auto script = ReadRecord<abi::pt_script_record>(record);
  const uint32_t tid = script.head.tid;
  next_.erase(tid);
  if (script.count > PT_SCRIPT_MOST_FRAMES ||
      record.size() < PT_SCRIPT_HEAD_BYTES + script.count * sizeof(abi::pt_script_frame)) {
    return false;
  }
  if (script.count == 0) return true;
  std::vector<ScriptKey> keys;
  for (uint32_t i = 0; i < script.count; ++i) {
    keys.push_back({Pid{script.head.pid}, image, script.frames[i].code, script.frames[i].node});
  }
  const auto known = ids_.find(keys);
  if (known != ids_.end()) {
    next_[tid] = known->second;
  } else if (ids_.size() < kMostPlaces) {
    const ScriptId id{static_cast<uint32_t>(ids_.size() + 1)};
    ids_.emplace(std::move(keys), id);
    next_[tid] = id;
  } else {
    ++others_;
  }
  return true;
}

ScriptId ScriptDecoder::Take(const abi::pt_record& head) {
  if (next_.empty() || (!BeginsRow(head.kind) && head.kind != abi::PT_NODE_BEGIN)) return kNoScript;
  const auto next = next_.find(head.tid);
  if (next == next_.end()) return kNoScript;
  const ScriptId id = next->second;
  next_.erase(next);
  return head.kind == abi::PT_NODE_BEGIN ? kNoScript : id;
}

std::vector<std::string> ScriptDecoder::TakeTexts(const CaptureMetadata& metadata) {
  std::vector<std::string> texts(ids_.size() + 1);
  for (const auto& [keys, id] : ids_) {
    std::string text;
    std::string prefix = "TOP";
    bool is_known = true;
    for (const ScriptKey& key : keys) {
      const auto found = metadata.scripts.find(key);
      is_known &= found != metadata.scripts.end();
      if (!is_known) break;
      text += prefix + found->second.text;
      prefix = found->second.prefix;
    }
    if (is_known) texts[Raw(id)] = std::move(text);
  }
  return texts;
}

}  // namespace proftrace
