#include "userspace/decode/python_decoder.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>

#include "userspace/model/python_lines.h"

namespace proftrace {
namespace {

// The bits of a module's handle (PT_PYTHON_MODULE) that are its address.
constexpr uint64_t kModuleAddress = (uint64_t{1} << PT_PYTHON_MODULE_ADDRESS_BITS) - 1;

}  // namespace

uint32_t PythonVersionOf(const std::string& text) {
  uint32_t major = 0;
  uint32_t minor = 0;
  if (std::sscanf(text.c_str(), "%2u.%3u", &major, &minor) != 2 || minor > 0xff) return 0;
  return major << 8 | minor;
}

bool PythonDecoder::OnRecord(std::span<const std::byte> record) {
  abi::pt_record head;
  std::memcpy(&head, record.data(), sizeof(head));
  switch (head.kind) {
    case abi::PT_PYTHON_CODE: {
      abi::pt_python_code_record code{};
      std::memcpy(&code, record.data(), std::min(record.size(), sizeof(code)));
      if (is_full() && code.id != 0 && !code_numbers_.contains(code.id)) {
        AddLate(code.id, Pid{head.pid}, code.first_line);
        return true;
      }
      const uint32_t number = CodeOf(code.id);
      if (number == 0) return false;
      codes_[number - 1].pid = Pid{head.pid};
      codes_[number - 1].first_line = code.first_line;
      return true;
    }
    case abi::PT_PYTHON_TEXT: {
      abi::pt_python_text_record text{};
      std::memcpy(&text, record.data(), std::min(record.size(), sizeof(text)));
      return OnText(text, std::min(record.size(), sizeof(text)) - PT_PYTHON_TEXT_HEAD_BYTES);
    }
    case abi::PT_PYTHON_STACK: {
      abi::pt_python_stack_record stack{};
      std::memcpy(&stack, record.data(), std::min(record.size(), sizeof(stack)));
      return OnStack(stack,
                     (std::min(record.size(), sizeof(stack)) - PT_PYTHON_STACK_HEAD_BYTES) / 8);
    }
    case abi::PT_PYTHON_MODULE: {
      abi::pt_pair_record pair{};
      std::memcpy(&pair, record.data(), sizeof(pair));
      return OnModule(pair);
    }
  }
  return false;
}

uint32_t PythonDecoder::CodeOf(uint32_t id) {
  if (const auto known = code_numbers_.find(id); known != code_numbers_.end()) return known->second;
  if (id == 0) return 0;
  if (is_full()) {
    const auto late = late_codes_.find(id);
    if (late == late_codes_.end()) return OtherCode();
    uint32_t& instead = late->second.instead;
    if (instead == 0) instead = InsteadOf(late->second.code);
    return instead;
  }
  // A stack may come a little before its code, if another thread records the code.
  codes_.emplace_back().id = id;
  return code_numbers_[id] = static_cast<uint32_t>(codes_.size());
}

uint32_t PythonDecoder::OtherCode() {
  if (other_code_ != 0) return other_code_;
  Code& code = codes_.emplace_back();
  Part& name = code.parts[abi::PT_PYTHON_NAME];
  name = {kOtherNames, sizeof(kOtherNames) - 1, 1};
  code.parts[abi::PT_PYTHON_FILE] = name;
  return other_code_ = static_cast<uint32_t>(codes_.size());
}

bool PythonDecoder::OnText(const abi::pt_python_text_record& record, size_t room) {
  if (record.bytes > room || (record.width > 2 && record.width != 4)) return false;
  const std::string_view bytes(reinterpret_cast<const char*>(record.text), record.bytes);
  if (record.part == abi::PT_PYTHON_CLASS_NAME) {
    const auto told = told_modules_.find(record.head.tid);
    if (told != told_modules_.end()) modules_[told->second].class_name = std::string(bytes);
    return true;
  }
  if (record.part > abi::PT_PYTHON_LINES) return false;
  if (is_full() && record.id != 0 && !code_numbers_.contains(record.id)) {
    AddLateText(record, bytes);
    return true;
  }
  const uint32_t number = CodeOf(record.id);
  if (number == 0) return false;
  Part& part = codes_[number - 1].parts[record.part];
  // A piece is missing, so the pieces after it have no place.
  if (record.offset != part.bytes.size()) return true;
  // Codes that come later stand for others, but the text of this one is only cut.
  if (text_bytes_ >= limits_.text_bytes) return true;
  text_bytes_ += bytes.size();
  part.bytes.append(bytes);
  part.total = record.total;
  part.width = record.width;
  return true;
}

bool PythonDecoder::OnModule(const abi::pt_pair_record& record) {
  // The module is defined again, so another module lies there now.
  if (modules_.size() >= limits_.modules) {
    module_numbers_.erase({record.head.pid, record.handle});
    told_modules_.erase(record.head.tid);
    ++other_modules_;
    return true;
  }
  const auto number = static_cast<uint32_t>(modules_.size());
  module_numbers_[{record.head.pid, record.handle}] = number;
  told_modules_[record.head.tid] = number;
  modules_told_ns_.push_back(static_cast<int64_t>(record.head.time_ns));
  PythonModule& module = modules_.emplace_back();
  module.pid = Pid{record.head.pid};
  module.object = record.handle & kModuleAddress;
  module.type = record.object;
  return true;
}

// Returns 1 + an index into modules_; 0 = none. Like a code, a module may be used a little before
// its record comes.
uint32_t PythonDecoder::ModuleOf(uint32_t pid, uint64_t object) {
  const auto it = module_numbers_.find({pid, object});
  return it == module_numbers_.end() ? 0 : it->second + 1;
}

bool PythonDecoder::OnStack(const abi::pt_python_stack_record& record, size_t words) {
  Thread& thread = threads_[record.head.tid];
  if (thread.pid != record.head.pid) thread = Thread{record.head.pid, {}};
  if (record.flags & abi::PT_PYTHON_STACK_CUT) ++ledger_->stacks_cut;
  if (record.flags & abi::PT_PYTHON_STACK_FAILED) ++ledger_->stacks_unread;
  // The stack that this one is based on was lost. The BPF programs send a whole stack next.
  if (record.common > thread.frames.size()) {
    thread.frames.clear();
    return true;
  }
  thread.frames.resize(record.common);
  size_t at = 0;
  for (uint32_t i = 0; i < record.count; ++i) {
    const std::optional<StackId> frame =
        TakeFrame(thread, std::span(record.words, words).subspan(std::min(at, words)), &at);
    if (!frame.has_value()) {
      thread.frames.clear();
      return false;
    }
    thread.frames.push_back(*frame);
  }
  return true;
}

std::optional<StackId> PythonDecoder::TakeFrame(const Thread& thread,
                                                std::span<const uint64_t> words, size_t* at) {
  const size_t size = !words.empty() && (words[0] & PT_PYTHON_FRAME_HAS_MODULE) ? 2 : 1;
  if (words.size() < size) return std::nullopt;
  *at += size;
  FrameKey key;
  key.parent = thread.frames.empty() ? kNoStack : thread.frames.back();
  key.word = words[0] & ~PT_PYTHON_FRAME_HAS_MODULE;
  if (size == 2) key.module = ModuleOf(thread.pid, words[1]);
  const uint32_t code = CodeOf(static_cast<uint32_t>(key.word >> 32));
  if (code == 0) return std::nullopt;
  const Code& of_frame = codes_[code - 1];
  // The frame keeps its place in the thread's stack, because the next record counts it.
  if (IsHiddenPythonCode(of_frame.parts[abi::PT_PYTHON_FILE].bytes,
                         of_frame.parts[abi::PT_PYTHON_NAME].bytes)) {
    return key.parent;
  }
  if (code == other_code_) {
    // Such codes that call each other are one frame.
    if (key.parent != kNoStack && frames_[Raw(key.parent)].code == other_code_ - 1) {
      return key.parent;
    }
    key.word = 0;
  } else {
    key.word = WordOf(code, key.word);
  }
  return FrameOf(key, code);
}

StackId PythonDecoder::FrameOf(const FrameKey& key, uint32_t code) {
  if (const auto known = frame_ids_.find(key); known != frame_ids_.end()) return known->second;
  const StackId id{static_cast<uint32_t>(frames_.size())};
  PythonFrame frame;
  if (frames_.size() >= limits_.frames) {
    ++other_stacks_;
    if (other_stack_ != kNoStack) return other_stack_;
    other_stack_ = id;
    frame.code = OtherCode() - 1;
    frame.depth = 1;
  } else {
    frame_ids_.emplace(key, id);
    frame.parent = key.parent;
    frame.code = code - 1;
    frame.instruction = static_cast<uint32_t>(key.word);
    frame.module = key.module;
    frame.depth = frames_[Raw(key.parent)].depth + 1;
  }
  frames_.push_back(frame);
  return id;
}

void PythonDecoder::OnLoss(uint32_t tid) { threads_.erase(tid); }

StackId PythonDecoder::StackOf(uint32_t pid, uint32_t tid) const {
  const auto it = threads_.find(tid);
  if (it == threads_.end() || it->second.pid != pid || it->second.frames.empty()) return kNoStack;
  return it->second.frames.back();
}

std::string PythonDecoder::TextOf(const Part& part, bool is_name) {
  if (part.width == 0 || part.total == 0) return is_name ? "<unknown>" : "";
  std::string text = PythonTextToUtf8(
      std::span(reinterpret_cast<const uint8_t*>(part.bytes.data()), part.bytes.size()),
      part.width);
  if (part.bytes.size() < part.total) {
    text += "…";
    ++ledger_->names_cut;
  }
  return text;
}

PythonDecoder::Tables PythonDecoder::TakeTables(const Facts& facts) {
  Tables tables;
  std::map<uint32_t, std::vector<std::string>> paths;
  std::vector<std::optional<PythonLines>> lines(codes_.size());
  tables.codes.reserve(codes_.size());
  for (Code& code : codes_) {
    PythonCode& named = tables.codes.emplace_back();
    named.pid = code.pid;
    named.first_line = code.first_line;
    named.name = TextOf(code.parts[abi::PT_PYTHON_NAME], /*is_name=*/true);
    named.qualified_name = TextOf(code.parts[abi::PT_PYTHON_QUALIFIED_NAME], /*is_name=*/false);
    if (named.qualified_name.empty()) named.qualified_name = named.name;
    const auto [it, inserted] = paths.try_emplace(Raw(code.pid));
    if (inserted) it->second = facts.paths_of(code.pid);
    named.file =
        WithoutPythonPath(TextOf(code.parts[abi::PT_PYTHON_FILE], /*is_name=*/true), it->second);
    const Part& table = code.parts[abi::PT_PYTHON_LINES];
    if (table.width == 0 || table.bytes.size() < table.total) continue;
    const std::span bytes(reinterpret_cast<const uint8_t*>(table.bytes.data()), table.bytes.size());
    lines[tables.codes.size() - 1].emplace(facts.version_of(code.pid), code.first_line, bytes);
  }
  for (PythonFrame& frame : frames_) {
    if (&frame == frames_.data()) continue;
    if (const std::optional<PythonLines>& table = lines[frame.code]; table.has_value()) {
      frame.line = table->LineOf(frame.instruction).value_or(0);
    }
    if (frame.module != 0) tables.codes[frame.code].is_module_call = true;
  }
  std::map<std::pair<uint32_t, uint64_t>, uint32_t> counts;
  for (size_t i = 0; i < modules_.size(); ++i) {
    PythonModule& module = modules_[i];
    if (module.class_name.empty()) module.class_name = "<unknown>";
    module.number = counts[{Raw(module.pid), module.type}]++;
    if (const std::string* path = facts.path_of_module(module, modules_told_ns_[i])) {
      module.path = *path;
      module.has_path = true;
    }
  }
  tables.group_codes = group_codes_;
  tables.other_codes = other_codes_;
  tables.other_modules = other_modules_;
  tables.other_stacks = other_stacks_;
  tables.frames = std::move(frames_);
  tables.modules = std::move(modules_);
  return tables;
}

}  // namespace proftrace
