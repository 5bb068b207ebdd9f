// Writes raw records as the BPF programs do: made-up jobs with a clock of their own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "bpf/abi/python_records.h"
#include "bpf/abi/records.h"
#include "bpf/abi/script_records.h"
#include "userspace/wire/record_source.h"

namespace proftrace {

inline constexpr uint32_t kTid = 7;  // a thread of most made-up jobs

// A record at the end of `bytes`, with its size and the process's number in its head.
inline void AppendRecord(const void* record, size_t size, uint32_t pid,
                         std::vector<std::byte>* bytes) {
  const size_t start = bytes->size();
  bytes->resize(start + size);
  std::memcpy(bytes->data() + start, record, size);
  (*bytes)[start + offsetof(abi::pt_record, words)] = static_cast<std::byte>(size / 8);
  std::memcpy(bytes->data() + start + offsetof(abi::pt_record, pid), &pid, sizeof(pid));
}

class RecordMaker {
 public:
  static constexpr uint32_t kPid = 100;
  // `pid`: of all its records.
  explicit RecordMaker(uint32_t pid = kPid) : pid_(pid) {}
  // A stack pointer as a record holds it: callers are above callees.
  static constexpr uint32_t Sp(uint32_t depth) { return 0x10000000u - depth * 16; }

  void Begin(uint32_t tid, int64_t ns, uint16_t site, uint32_t depth) {
    Add(Head(abi::PT_SPAN_BEGIN, tid, ns, site, Sp(depth)));
  }
  // The exit site lies inside the function: a little below its entry.
  // What the next begin is called with, in as many records as it takes.
  void Inputs(uint32_t tid, int64_t ns, uint16_t site, uint32_t depth, uint16_t count,
              const std::vector<uint64_t>& values, uint8_t spilled = 0, uint8_t flags = 0,
              uint8_t kind = abi::PT_INPUTS) {
    size_t sent = 0;
    do {
      const size_t words = std::min<size_t>(values.size() - sent, 251);
      abi::pt_inputs_record record{};
      record.head = Head(sent == 0 ? kind : uint8_t{abi::PT_INPUTS_MORE}, tid, ns, site, Sp(depth));
      record.count = count;
      record.flags = flags;
      record.spilled = spilled;
      record.words = static_cast<uint32_t>(sent == 0 ? values.size() : sent);
      std::copy_n(values.begin() + static_cast<ptrdiff_t>(sent), words, record.values);
      AddBytes(&record, PT_INPUTS_HEAD_BYTES + 8 * words);
      sent += words;
    } while (sent < values.size());
  }
  // `count` keyword values of the next begin; `tell_scope`: and its scope.
  void Keywords(uint32_t tid, int64_t ns, uint16_t site, uint32_t depth, uint16_t count,
                const std::vector<uint64_t>& values, bool tell_scope, uint8_t flags = 0) {
    Inputs(tid, ns, site, depth, count, values, tell_scope ? 1 : 0, flags, abi::PT_KEYWORDS);
  }
  // An operator and what it is called with, in one record.
  void Call(uint32_t tid, int64_t ns, uint16_t site, uint32_t depth, uint8_t count,
            const std::vector<uint64_t>& values, int64_t sequence = -1, uint8_t flags = 0) {
    abi::pt_call_record record{};
    record.head = Head(abi::PT_OPERATOR_CALL, tid, ns, site, Sp(depth));
    record.facts = static_cast<uint64_t>(sequence + 1) | uint64_t{count} << PT_CALL_SEQUENCE_BITS |
                   uint64_t{flags} << 56;
    std::copy(values.begin(), values.end(), record.values);
    AddBytes(&record, PT_CALL_HEAD_BYTES + 8 * values.size());
  }
  void SpilledInputs(uint32_t tid, int64_t ns, uint16_t site, const std::vector<double>& doubles) {
    abi::pt_inputs_record record{};
    record.head = Head(abi::PT_SPILLED_INPUTS, tid, ns, site, 0);
    for (size_t i = 0; i < doubles.size(); ++i) {
      record.values[2 * i] = abi::PT_VALUE_DOUBLE;
      std::memcpy(&record.values[2 * i + 1], &doubles[i], sizeof(double));
    }
    AddBytes(&record, PT_INPUTS_HEAD_BYTES + 16 * doubles.size());
  }
  void End(uint32_t tid, int64_t ns, uint16_t site, uint32_t depth) {
    Add(Head(abi::PT_SPAN_END, tid, ns, site, Sp(depth) - 1));
  }
  void Catch(uint32_t tid, int64_t ns, uint32_t sp) { Add(Head(abi::PT_CATCH, tid, ns, 0, sp)); }
  void Boxed(uint32_t tid, int64_t ns, uint16_t site, uint32_t depth, uint64_t operator_def) {
    AddPointer(abi::PT_BOXED_BEGIN, tid, ns, site, Sp(depth), operator_def);
  }
  // A call with the name of a symbol, or of its site.
  void Named(uint32_t tid, int64_t ns, uint16_t site, uint32_t depth, uint32_t symbol,
             uint32_t scope) {
    AddPointer(abi::PT_NAMED_BEGIN, tid, ns, site, Sp(depth), symbol | uint64_t{scope} << 32);
  }
  // A code object, with as many pieces of text as the programs write; `lines`: its table.
  void PythonCode(uint32_t tid, int64_t ns, uint32_t id, int32_t first_line,
                  const std::string& file, const std::string& name, const std::string& lines = "",
                  uint8_t width = 1) {
    abi::pt_python_code_record record{};
    record.head = Head(abi::PT_PYTHON_CODE, tid, ns, 0, 0);
    record.id = id;
    record.first_line = first_line;
    Add(record);
    PythonText(tid, ns, id, abi::PT_PYTHON_FILE, file, 1);
    PythonText(tid, ns, id, abi::PT_PYTHON_NAME, name, width);
    PythonText(tid, ns, id, abi::PT_PYTHON_LINES, lines, 1);
  }
  void PythonText(uint32_t tid, int64_t ns, uint32_t id, uint8_t part, const std::string& text,
                  uint8_t width, uint32_t total = 0) {
    size_t offset = 0;
    do {
      const size_t room = offset == 0 ? PT_PYTHON_TEXT_BYTES : PT_PYTHON_MORE_TEXT_BYTES;
      abi::pt_python_text_record record{};
      record.head = Head(abi::PT_PYTHON_TEXT, tid, ns, 0, 0);
      record.id = id;
      record.part = part;
      record.width = width;
      record.offset = static_cast<uint32_t>(offset);
      record.total = std::max(total, static_cast<uint32_t>(text.size()));
      record.bytes = static_cast<uint16_t>(std::min(text.size() - offset, room));
      std::memcpy(record.text, text.data() + offset, record.bytes);
      AddBytes(&record, PT_PYTHON_TEXT_HEAD_BYTES + room);
      offset += record.bytes;
    } while (offset < text.size());
  }
  // Frames: PythonFrameWord(); one of a module is followed by its address.
  void PythonStack(uint32_t tid, int64_t ns, uint16_t common, uint16_t count,
                   const std::vector<uint64_t>& words, uint8_t flags = 0) {
    abi::pt_python_stack_record record{};
    record.head = Head(abi::PT_PYTHON_STACK, tid, ns, 0, 0);
    record.common = common;
    record.count = count;
    record.flags = flags;
    std::copy(words.begin(), words.end(), record.words);
    AddBytes(&record, PT_PYTHON_STACK_HEAD_BYTES + 8 * words.size());
  }
  static constexpr uint64_t PythonFrameWord(uint32_t code, uint32_t instruction,
                                            bool has_module = false) {
    return uint64_t{code} << 32 | instruction | (has_module ? PT_PYTHON_FRAME_HAS_MODULE : 0);
  }
  // What the thread's interpreter runs where its next row begins. `count`: what the record says.
  void Script(uint32_t tid, int64_t ns, const std::vector<abi::pt_script_frame>& frames,
              std::optional<uint32_t> count = std::nullopt) {
    abi::pt_script_record record{};
    record.head = Head(abi::PT_SCRIPT_STACK, tid, ns, 0, 0);
    record.count = count.value_or(static_cast<uint32_t>(frames.size()));
    std::copy(frames.begin(), frames.end(), record.frames);
    AddBytes(&record, PT_SCRIPT_HEAD_BYTES + frames.size() * sizeof(abi::pt_script_frame));
  }
  void PythonModule(uint32_t tid, int64_t ns, uint64_t object, uint64_t type,
                    const std::string& class_name) {
    abi::pt_pair_record record{};
    record.head = Head(abi::PT_PYTHON_MODULE, tid, ns, 0, 0);
    record.handle = object;
    record.object = type;
    Add(record);
    PythonText(tid, ns, 0, abi::PT_PYTHON_CLASS_NAME, class_name, 1);
  }
  void SizedBegin(uint32_t tid, int64_t ns, uint16_t site, uint32_t depth, uint64_t bytes) {
    AddPointer(abi::PT_SIZED_BEGIN, tid, ns, site, Sp(depth), bytes);
  }
  void Loss(uint32_t tid, int64_t ns, uint64_t count) {
    AddPointer(abi::PT_LOSS, tid, ns, 0, 0, count);
  }
  void LossAnywhere(uint32_t tid, int64_t ns, uint64_t count) {
    AddPointer(abi::PT_LOSS_ANYWHERE, tid, ns, 0, 0, count);
  }
  void AnnotationHandle(uint32_t tid, int64_t ns, uint64_t handle) {
    AddPointer(abi::PT_ANNOTATION_HANDLE, tid, ns, 0, 0, handle);
  }
  void AnnotationEnd(uint32_t tid, int64_t ns, uint64_t handle) {
    AddPointer(abi::PT_ANNOTATION_END, tid, ns, 0, 0, handle);
  }
  // Adds the records as the programs write them: the first part, then as many continuations as the
  // name needs.
  void AnnotationBegin(uint32_t tid, int64_t ns, const std::string& name) {
    abi::pt_text_record record{};
    record.head = Head(abi::PT_ANNOTATION_BEGIN, tid, ns, 0, 0);
    record.length = static_cast<uint32_t>(name.size());
    std::memcpy(record.text, name.data(), std::min<size_t>(name.size(), PT_TEXT_BYTES));
    Add(record);
    RestOfName(tid, ns, name);
  }
  void RestOfName(uint32_t tid, int64_t ns, const std::string& name) {
    size_t offset = PT_TEXT_BYTES;
    for (int i = 0; i < 2 && offset < name.size(); ++i) {
      abi::pt_text_more_record more{};
      more.head = Head(abi::PT_TEXT_MORE, tid, ns, 0, 0);
      more.offset = static_cast<uint32_t>(offset);
      more.bytes =
          static_cast<uint32_t>(std::min<size_t>(name.size() - offset, PT_TEXT_MORE_BYTES));
      std::memcpy(more.text, name.data() + offset, more.bytes);
      offset += more.bytes;
      Add(more);
    }
  }
  // A row with an object of its own; without a name it has its site's.
  void Guard(uint8_t kind, uint32_t tid, int64_t ns, uint32_t depth, uint64_t handle,
             uint64_t object, uint32_t scope, const std::string& name, uint32_t width = 0,
             uint16_t site = 0) {
    abi::pt_guard_record record{};
    record.head = Head(kind, tid, ns, name.empty() ? uint16_t{4} : site, Sp(depth));
    record.handle = handle;
    record.object = object;
    record.scope = scope;
    record.length = static_cast<uint32_t>(name.size()) | width << PT_TEXT_WIDTH_SHIFT;
    std::memcpy(record.text, name.data(), std::min<size_t>(name.size(), PT_TEXT_BYTES));
    if (name.empty()) {
      AddBytes(&record, PT_GUARD_RECORD_SHORT_BYTES);
    } else {
      Add(record);
    }
  }
  void GuardEnd(uint32_t tid, int64_t ns, uint32_t depth, uint64_t handle, bool unwound = false) {
    AddPointer(abi::PT_GUARD_END, tid, ns, unwound, Sp(depth), handle);
  }
  void FrameEnd(uint32_t tid, int64_t ns, uint32_t depth, uint64_t handle, uint64_t object) {
    abi::pt_pair_record record{};
    record.head = Head(abi::PT_FRAME_END, tid, ns, 0, Sp(depth));
    record.handle = handle;
    record.object = object;
    Add(record);
  }
  void AnnotationGuard(uint32_t tid, int64_t ns, uint64_t guard) {
    AddPointer(abi::PT_ANNOTATION_GUARD, tid, ns, 0, 0, guard);
  }
  void Node(uint32_t tid, int64_t ns, uint16_t site, uint32_t depth, uint64_t vtable,
            uint64_t python_type, const std::string& type_name) {
    abi::pt_node_record record{};
    record.head = Head(abi::PT_NODE_BEGIN, tid, ns, site, Sp(depth));
    record.vtable = vtable;
    record.python_type = python_type;
    std::strncpy(record.type_name, type_name.c_str(), sizeof(record.type_name) - 1);
    if (type_name.empty()) {
      AddBytes(&record, PT_NODE_RECORD_SHORT_BYTES);
      return;
    }
    Add(record);
    const size_t told = std::min<size_t>(type_name.size(), PT_NAME_BYTES + 1);
    for (size_t at = sizeof(record.type_name) - 1; at <= told; at += PT_TEXT_MORE_BYTES) {
      abi::pt_text_more_record more{};
      more.head = Head(abi::PT_TEXT_MORE, tid, ns, 0, Sp(depth));
      more.offset = static_cast<uint32_t>(at);
      more.bytes = static_cast<uint32_t>(std::min<size_t>(told - at, PT_TEXT_MORE_BYTES));
      std::memcpy(more.text, type_name.data() + at, more.bytes);
      Add(more);
    }
  }
  // An operator with a sequence number.
  void Numbered(uint32_t tid, int64_t ns, uint16_t site, uint32_t depth, uint64_t number) {
    AddPointer(abi::PT_SPAN_BEGIN, tid, ns, site, Sp(depth), number);
  }
  void Sequence(uint32_t tid, int64_t ns, uint32_t depth, uint64_t number) {
    AddPointer(abi::PT_SEQUENCE, tid, ns, 0, Sp(depth), number);
  }
  void NodeForward(uint32_t tid, int64_t ns, uint32_t depth, uint64_t number, uint64_t thread) {
    abi::pt_pair_record record{};
    record.head = Head(abi::PT_NODE_FORWARD, tid, ns, 0, Sp(depth));
    record.handle = number;
    record.object = thread;
    Add(record);
  }
  // A group of gloo, at that address, takes a number for the work that the thread makes next.
  void GroupCall(uint32_t tid, int64_t ns, uint64_t group, uint64_t number) {
    abi::pt_pair_record record{};
    record.head = Head(abi::PT_GROUP_CALL, tid, ns, 0, 0);
    record.handle = group;
    record.object = number;
    Add(record);
  }
  void ThreadNumber(uint32_t tid, int64_t ns, uint64_t number) {
    AddPointer(abi::PT_THREAD_NUMBER, tid, ns, 0, 0, number);
  }
  void ThreadExit(uint32_t tid, int64_t ns, bool group_dead) {
    abi::pt_exit_record record{};
    record.head = Head(abi::PT_THREAD_EXIT, tid, ns, 0, 0);
    record.group_dead = group_dead ? 1 : 0;
    Add(record);
  }
  // A block's address takes the place of stack pointer and site. `is_stacked`: it has the stack
  // that the thread was told to have last.
  void Allocation(uint32_t tid, int64_t ns, uint64_t address, uint64_t bytes,
                  bool is_stacked = false) {
    AddPointer(is_stacked ? abi::PT_STACKED_ALLOCATION : abi::PT_ALLOCATION, tid, ns,
               static_cast<uint16_t>(address >> 32), static_cast<uint32_t>(address), bytes);
  }
  void Free(uint32_t tid, int64_t ns, uint64_t address, bool is_stacked = false) {
    Add(Head(is_stacked ? abi::PT_STACKED_FREE : abi::PT_FREE, tid, ns,
             static_cast<uint16_t>(address >> 32), static_cast<uint32_t>(address)));
  }
  // `kind`: PT_DEVICE_MEMORY or PT_OUT_OF_MEMORY.
  void Memory(uint8_t kind, uint32_t tid, int64_t ns, uint8_t device_type, int8_t device_index,
              uint64_t address, int64_t bytes, uint64_t allocated, uint64_t reserved) {
    abi::pt_memory_record record{};
    record.head = Head(kind, tid, ns, 0, 0);
    record.address = address;
    record.bytes = bytes;
    record.allocated = allocated;
    record.reserved = reserved;
    record.device_type = device_type;
    record.device_index = device_index;
    Add(record);
  }
  void Exec(uint32_t tid, int64_t ns) { Add(Head(abi::PT_EXEC, tid, ns, 0, 0)); }

  // A record of any kind and size; its `words` is set to the size.
  template <typename Record>
  void Add(Record record) {
    AddBytes(&record, sizeof(record));
  }

  std::vector<std::byte>& bytes() { return bytes_; }

  static abi::pt_record Head(uint8_t kind, uint32_t tid, int64_t ns, uint16_t site, uint32_t sp) {
    abi::pt_record head{};
    head.time_ns = static_cast<uint64_t>(ns);
    head.pid = kPid;
    head.tid = tid;
    head.sp = sp;
    head.site = site;
    head.kind = kind;
    return head;
  }

  void AddBytes(const void* record, size_t size) { AppendRecord(record, size, pid_, &bytes_); }

 private:
  void AddPointer(uint8_t kind, uint32_t tid, int64_t ns, uint16_t site, uint32_t sp,
                  uint64_t value) {
    abi::pt_pointer_record record{};
    record.head = Head(kind, tid, ns, site, sp);
    record.value = value;
    Add(record);
  }

  uint32_t pid_;
  std::vector<std::byte> bytes_;
};

// Gives batches from memory.
class VectorSource final : public RecordSource {
 public:
  void Add(std::vector<std::byte> records, bool gap_before = false) {
    batches_.push_back({std::move(records), gap_before});
  }
  absl::StatusOr<RecordBatch> Next() override {
    RecordBatch batch;
    if (next_ == batches_.size()) {
      batch.end = true;
      return batch;
    }
    batch.records = batches_[next_].records;
    batch.gap_before = batches_[next_].gap_before;
    ++next_;
    return batch;
  }

 private:
  struct Batch {
    std::vector<std::byte> records;
    bool gap_before;
  };
  std::vector<Batch> batches_;
  size_t next_ = 0;
};

}  // namespace proftrace
