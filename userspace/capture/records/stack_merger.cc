#include "userspace/capture/records/stack_merger.h"

#include <algorithm>
#include <cstring>

#include "bpf/abi/record_kinds.h"
#include "bpf/abi/records.h"

namespace proftrace {
namespace {

constexpr size_t kMostWords = sizeof(abi::pt_python_stack_record::words) / 8;
// The most code objects that are known by their contents. A job that makes code all the time
// reaches this number; from then on code objects are given out again.
constexpr size_t kMostKeptCodes = 1 << 16;
constexpr size_t kMostKeptNumbers = 1 << 18;  // in each of the two tables
constexpr uint64_t kModuleAddress = (uint64_t{1} << PT_PYTHON_MODULE_ADDRESS_BITS) - 1;

bool BeginsRow(uint8_t kind) {
  return kind != abi::PT_SPAN_END && kind != abi::PT_CATCH && kind != abi::PT_LOSS &&
         kind != abi::PT_LOSS_ANYWHERE && kind != abi::PT_THREAD_EXIT && kind != abi::PT_FORK &&
         kind != abi::PT_EXEC;
}

uint32_t CodeOf(uint64_t word) { return static_cast<uint32_t>(word >> 32) & 0x7fffffff; }

}  // namespace

std::span<const std::byte> StackMerger::Observe(std::span<const std::byte> record,
                                                RecordOrigin origin, const OnRecord& on_record) {
  abi::pt_record head{};
  if (record.size() < sizeof(head)) return record;
  std::memcpy(&head, record.data(), sizeof(head));
  if (!abi::IsOfStacks(head.kind)) {
    if (head.kind == abi::PT_EXEC) OnProcessEnd(head.pid);
    if (head.kind != abi::PT_THREAD_EXIT) return record;
    abi::pt_exit_record exit{};
    std::memcpy(&exit, record.data(), std::min(record.size(), sizeof(exit)));
    if (exit.group_dead != 0) OnProcessEnd(head.pid);
    return record;
  }
  Teller& teller = tellers_[{head.tid, origin}];
  if (teller.pid != head.pid) teller = Teller();
  teller.pid = head.pid;
  const bool is_jump = origin == RecordOrigin::kJump;
  if (head.kind != abi::PT_PYTHON_TEXT) EndCode(&teller, on_record);
  switch (head.kind) {
    case abi::PT_PYTHON_CODE:
      if (is_jump) {
        OnCode(record, &teller, on_record);
      } else {
        on_record(record);
      }
      return {};
    case abi::PT_PYTHON_TEXT:
      OnText(record, origin, &teller, on_record);
      return {};
    case abi::PT_PYTHON_MODULE:
      OnModule(record, origin, &teller, on_record);
      return {};
    default:
      return Renumber(record, origin);
  }
}

void StackMerger::Add(std::span<const std::byte> record, RecordOrigin origin,
                      const OnRecord& on_record) {
  abi::pt_record head{};
  if (record.size() < sizeof(head)) return;
  std::memcpy(&head, record.data(), sizeof(head));
  if (head.kind == abi::PT_PYTHON_STACK) {
    abi::pt_python_stack_record read{};
    if (record.size() < PT_PYTHON_STACK_HEAD_BYTES) return on_record(record);
    const size_t bytes = std::min(record.size(), sizeof(read));
    std::memcpy(&read, record.data(), bytes);
    Thread& thread = threads_[head.tid];
    if (thread.pid != head.pid) thread = Thread();
    thread.pid = head.pid;
    Stack& stack = origin == RecordOrigin::kJump ? thread.jumps : thread.probes;
    if (!ReadStack(read, (bytes - PT_PYTHON_STACK_HEAD_BYTES) / 8, &stack)) stack = {};
    thread.last = origin;
    return Tell(head, stack, &thread, on_record);
  }
  if (head.kind == abi::PT_LOSS_ANYWHERE) {
    for (auto& [tid, thread] : threads_) thread.told = thread.probes = {};
  }
  const auto it = threads_.find(head.tid);
  if (it != threads_.end() && it->second.pid == head.pid) {
    Thread& thread = it->second;
    Stack& stack = origin == RecordOrigin::kJump ? thread.jumps : thread.probes;
    if (head.kind == abi::PT_LOSS) thread.told = stack = {};
    if (thread.last != origin && BeginsRow(head.kind)) {
      thread.last = origin;
      Tell(head, stack, &thread, on_record);
    }
  }
  on_record(record);
  if (head.kind != abi::PT_THREAD_EXIT) return;
  threads_.erase(head.tid);
  // This must not be done in Observe(), where the thread's end, which the kernel reports, comes
  // before the last records of the thread's jumps.
  tellers_.erase({head.tid, RecordOrigin::kJump});
  tellers_.erase({head.tid, RecordOrigin::kProbe});
  handles_.erase({head.pid, head.tid});
}

void StackMerger::OnProcessEnd(uint32_t pid) {
  modules_.erase(pid);
  handles_.erase({pid, 0});
}

void StackMerger::OnCode(std::span<const std::byte> record, Teller* teller,
                         const OnRecord& on_record) {
  abi::pt_python_code_record code{};
  if (record.size() < sizeof(code)) return on_record(record);
  std::memcpy(&code, record.data(), sizeof(code));
  teller->code = code.id;
  teller->distance = 0;
  if (code.head.sp != 0) {
    teller->distance = distance_of_(Pid{code.head.pid}, code.address, code.head.sp);
    code.head.sp = 0;
  }
  teller->pieces.assign(record.begin(), record.end());
  std::memcpy(teller->pieces.data(), &code, sizeof(code));
  teller->text.assign(reinterpret_cast<const char*>(&code.head.pid), sizeof(code.head.pid));
  teller->text.append(reinterpret_cast<const char*>(&code.first_line), sizeof(code.first_line));
}

void StackMerger::OnText(std::span<const std::byte> record, RecordOrigin origin, Teller* teller,
                         const OnRecord& on_record) {
  abi::pt_python_text_record text{};
  if (record.size() < PT_PYTHON_TEXT_HEAD_BYTES) return on_record(record);
  std::memcpy(&text, record.data(), std::min(record.size(), sizeof(text)));
  if (text.part == abi::PT_PYTHON_CLASS_NAME) {
    if (!teller->skips_class) on_record(record);
    return;
  }
  if (origin != RecordOrigin::kJump) return on_record(record);
  if (text.id != teller->code) return;  // the record of its code object was lost
  teller->pieces.insert(teller->pieces.end(), record.begin(), record.end());
  const size_t bytes = std::min<size_t>(
      text.bytes, std::min(record.size(), sizeof(text)) - PT_PYTHON_TEXT_HEAD_BYTES);
  // The text gets the part, where the piece begins, the lengths of the whole and of this piece, the
  // width, and the characters.
  const uint64_t facts[] = {text.offset, text.total, bytes,
                            static_cast<uint64_t>(text.part) << 8 | text.width};
  teller->text.append(reinterpret_cast<const char*>(facts), sizeof(facts));
  teller->text.append(reinterpret_cast<const char*>(text.text), bytes);
}

void StackMerger::EndCode(Teller* teller, const OnRecord& on_record) {
  if (teller->code == 0) return;
  if (codes_.size() >= kMostKeptCodes) codes_.clear();
  const auto [it, is_new] = codes_.try_emplace(std::move(teller->text), next_code_);
  if (is_new) ++next_code_;
  KeepNumber({teller->pid, teller->code}, {it->second, teller->distance});
  for (size_t at = 0; is_new && at < teller->pieces.size();) {
    abi::pt_record head{};
    std::byte* piece = teller->pieces.data() + at;
    std::memcpy(&head, piece, sizeof(head));
    const size_t id = head.kind == abi::PT_PYTHON_CODE ? offsetof(abi::pt_python_code_record, id)
                                                       : offsetof(abi::pt_python_text_record, id);
    std::memcpy(piece + id, &it->second, sizeof(it->second));
    on_record({piece, size_t{head.words} * 8});
    at += size_t{head.words} * 8;
  }
  teller->code = 0;
  teller->text.clear();
  teller->pieces.clear();
}

void StackMerger::KeepNumber(std::pair<uint32_t, uint32_t> theirs, Code ours) {
  if (numbers_.size() >= kMostKeptNumbers) {
    older_numbers_ = std::move(numbers_);
    numbers_ = CodeNumbers();
  }
  numbers_[theirs] = ours;
}

std::optional<StackMerger::Code> StackMerger::NumberOf(std::pair<uint32_t, uint32_t> theirs) {
  if (const auto known = numbers_.find(theirs); known != numbers_.end()) return known->second;
  const auto older = older_numbers_.find(theirs);
  if (older == older_numbers_.end()) return std::nullopt;
  const Code ours = older->second;
  KeepNumber(theirs, ours);
  return ours;
}

void StackMerger::OnModule(std::span<const std::byte> record, RecordOrigin origin, Teller* teller,
                           const OnRecord& on_record) {
  abi::pt_pair_record pair{};
  if (record.size() < sizeof(pair)) return on_record(record);
  std::memcpy(&pair, record.data(), sizeof(pair));
  const uint64_t address = pair.handle & kModuleAddress;
  const auto [it, is_new] = modules_[pair.head.pid].try_emplace(address, Module{0, address});
  Module& module = it->second;
  teller->skips_class = !is_new && module.type == pair.object;
  if (!is_new && !teller->skips_class) module.handle += kModuleAddress + 1;
  module.type = pair.object;
  HandlesOf(pair.head, origin)[address] = module.handle;
  if (teller->skips_class) return;
  pair.handle = module.handle;
  std::vector<std::byte> told(record.begin(), record.end());
  std::memcpy(told.data(), &pair, sizeof(pair));
  on_record(told);
}

uint64_t StackMerger::ModuleAt(const abi::pt_record& head, uint64_t address, RecordOrigin origin) {
  address &= kModuleAddress;
  const ModuleHandles& own = HandlesOf(head, origin);
  if (const auto told = own.find(address); told != own.end()) return told->second;
  // The source's own record of the module is lost, but the other source may have recorded the
  // module.
  const auto& all = modules_[head.pid];
  const auto module = all.find(address);
  return module == all.end() ? address : module->second.handle;
}

std::span<const std::byte> StackMerger::Renumber(std::span<const std::byte> record,
                                                 RecordOrigin origin) {
  if (record.size() < PT_PYTHON_STACK_HEAD_BYTES) return record;
  const size_t bytes = std::min(record.size(), sizeof(renumbered_));
  std::memcpy(&renumbered_, record.data(), bytes);
  const size_t words = (bytes - PT_PYTHON_STACK_HEAD_BYTES) / 8;
  const std::span<const std::byte> all(reinterpret_cast<const std::byte*>(&renumbered_), bytes);
  for (size_t i = 0; i < words; ++i) {
    uint64_t& word = renumbered_.words[i];
    const bool has_module = (word & PT_PYTHON_FRAME_HAS_MODULE) != 0;
    if (has_module && i + 1 < words) {
      renumbered_.words[i + 1] = ModuleAt(renumbered_.head, renumbered_.words[i + 1], origin);
    }
    if (origin != RecordOrigin::kJump) {
      if (has_module) ++i;
      continue;
    }
    const std::optional<Code> code = NumberOf({renumbered_.head.pid, CodeOf(word)});
    if (!code.has_value()) {
      // The records of the code object are lost. No frames are better than the frames of another
      // row.
      renumbered_.common = renumbered_.count = 0;
      renumbered_.flags = abi::PT_PYTHON_STACK_FAILED;
      renumbered_.head.words = PT_PYTHON_STACK_HEAD_BYTES / 8;
      return all.first(PT_PYTHON_STACK_HEAD_BYTES);
    }
    // Where the distance is not known, the instruction becomes that of a frame which has not begun.
    const auto instruction = static_cast<uint32_t>(word);
    const uint32_t own = code->distance ? instruction - *code->distance : UINT32_MAX;
    word = (word & PT_PYTHON_FRAME_HAS_MODULE) | uint64_t{code->number} << 32 | own;
    if (has_module) ++i;
  }
  return all;
}

bool StackMerger::ReadStack(const abi::pt_python_stack_record& record, size_t words, Stack* stack) {
  if (record.common > 0 && (!stack->is_known || record.common > stack->frames.size())) return false;
  stack->frames.resize(record.common);
  stack->flags = record.flags;
  size_t at = 0;
  for (uint32_t i = 0; i < record.count; ++i) {
    if (at >= words) return false;
    Frame frame{record.words[at++], 0};
    if ((frame.word & PT_PYTHON_FRAME_HAS_MODULE) != 0) {
      if (at >= words) return false;
      frame.module = record.words[at++];
    }
    stack->frames.push_back(frame);
  }
  stack->is_known = true;
  return true;
}

void StackMerger::Tell(const abi::pt_record& head, const Stack& stack, Thread* thread,
                       const OnRecord& on_record) {
  Stack& told = thread->told;
  // A stack that is not known is given out as an empty one, and only once.
  if (!stack.is_known && (!told.is_known || told.frames.empty())) return;
  if (stack.is_known && told.is_known && stack.frames == told.frames && stack.flags == told.flags) {
    return;
  }
  size_t done = 0;
  if (told.is_known) {
    const auto differ = std::mismatch(stack.frames.begin(), stack.frames.end(), told.frames.begin(),
                                      told.frames.end());
    done = static_cast<size_t>(differ.first - stack.frames.begin());
  }
  do {
    abi::pt_python_stack_record made{};
    made.head = head;
    made.head.kind = abi::PT_PYTHON_STACK;
    made.head.site = 0;
    made.head.sp = 0;
    made.common = static_cast<uint16_t>(done);
    size_t words = 0;
    while (done < stack.frames.size() && words + 2 <= kMostWords) {
      const Frame& frame = stack.frames[done++];
      made.words[words++] = frame.word;
      if ((frame.word & PT_PYTHON_FRAME_HAS_MODULE) != 0) made.words[words++] = frame.module;
      ++made.count;
    }
    // The last record, which completes the stack, has its flags.
    if (done == stack.frames.size()) made.flags = stack.flags;
    const size_t bytes = PT_PYTHON_STACK_HEAD_BYTES + words * 8;
    made.head.words = static_cast<uint8_t>(bytes / 8);
    on_record({reinterpret_cast<const std::byte*>(&made), bytes});
  } while (done < stack.frames.size());
  told = stack;
}

}  // namespace proftrace
