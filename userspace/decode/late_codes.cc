// The part of PythonDecoder for code objects that come after the limit. Each is replaced by an
// equal one with another number, by its group, or by that of all others.
#include <absl/hash/hash.h>

#include <string>
#include <string_view>
#include <utility>

#include "userspace/decode/python_decoder.h"

namespace proftrace {
namespace {

// The most code objects, and bytes of these, that are kept until their stacks come. Each has at
// most 72 kB of texts.
constexpr size_t kMostLateCodes = size_t{1} << 16;
constexpr size_t kMostLateBytes = size_t{16} << 20;
// The most bytes of groups, in addition to those of the codes themselves.
constexpr size_t kMostGroupBytes = size_t{4} << 20;

// Returns the group of a text, or the text itself where it has no number in it.
std::string GroupOrText(const std::string& text) { return GroupOfName(text).value_or(text); }

}  // namespace

void PythonDecoder::AddLate(uint32_t id, Pid pid, int32_t first_line) {
  if (late_codes_.size() >= kMostLateCodes || late_bytes_ >= kMostLateBytes) {
    late_codes_.clear();
    late_bytes_ = 0;
  }
  LateCode& late = late_codes_[id];
  late = LateCode();
  late.code.pid = pid;
  late.code.first_line = first_line;
}

void PythonDecoder::AddLateText(const abi::pt_python_text_record& record, std::string_view bytes) {
  const auto late = late_codes_.find(record.id);
  if (late == late_codes_.end()) return;
  Part& part = late->second.code.parts[record.part];
  if (record.offset != part.bytes.size()) return;
  late_bytes_ += bytes.size();
  part.bytes.append(bytes);
  part.total = record.total;
  part.width = record.width;
}

uint32_t PythonDecoder::InsteadOf(const Code& late) {
  if (const uint32_t same = SameCode(late); same != 0) return same;
  if (const uint32_t group = GroupCode(late); group != 0) {
    ++group_codes_;
    return group;
  }
  ++other_codes_;
  return OtherCode();
}

uint32_t PythonDecoder::SameCode(const Code& late) {
  const auto hash_of = [](const Code& code) {
    const auto& parts = code.parts;
    return absl::HashOf(Raw(code.pid), code.first_line, parts[0].bytes, parts[1].bytes,
                        parts[3].bytes);
  };
  if (code_hashes_.empty()) {
    for (size_t i = 0; i < codes_.size(); ++i) {
      if (codes_[i].id == 0) continue;
      code_hashes_.try_emplace(hash_of(codes_[i]), static_cast<uint32_t>(i + 1));
    }
  }
  const auto known = code_hashes_.find(hash_of(late));
  if (known == code_hashes_.end()) return 0;
  const Code& code = codes_[known->second - 1];
  bool is_same = code.pid == late.pid && code.first_line == late.first_line;
  for (size_t part = 0; part < std::size(code.parts); ++part) {
    is_same &= code.parts[part].bytes == late.parts[part].bytes &&
               code.parts[part].width == late.parts[part].width;
  }
  return is_same ? known->second : 0;
}

uint32_t PythonDecoder::GroupCode(const Code& late) {
  const Part& file = late.parts[abi::PT_PYTHON_FILE];
  const Part& name = late.parts[abi::PT_PYTHON_NAME];
  if (file.width != 1 || name.width != 1) return 0;
  const std::string group_file = GroupOrText(file.bytes);
  const std::string group_name = GroupOrText(name.bytes);
  if (group_file == file.bytes && group_name == name.bytes) return 0;
  std::string key = std::to_string(Raw(late.pid));
  key.append(1, '\0').append(group_file).append(1, '\0').append(group_name);
  const auto known = groups_.find(key);
  if (known != groups_.end()) return known->second;
  const size_t bytes = group_file.size() + group_name.size();
  if (groups_.size() >= limits_.groups ||
      text_bytes_ + bytes > limits_.text_bytes + kMostGroupBytes) {
    return 0;
  }
  text_bytes_ += bytes;
  Code& group = codes_.emplace_back();
  group.pid = late.pid;
  group.parts[abi::PT_PYTHON_FILE] = {group_file, static_cast<uint32_t>(group_file.size()), 1};
  group.parts[abi::PT_PYTHON_NAME] = {group_name, static_cast<uint32_t>(group_name.size()), 1};
  const auto number = static_cast<uint32_t>(codes_.size());
  groups_.emplace(std::move(key), number);
  return number;
}

uint64_t PythonDecoder::WordOf(uint32_t code, uint64_t word) const {
  const uint32_t id = codes_[code - 1].id;
  // No code object has such a number.
  if (id == 0) return PT_PYTHON_FRAME_HAS_MODULE | uint64_t{code} << 32;
  return uint64_t{id} << 32 | (word & 0xffffffff);
}

}  // namespace proftrace
