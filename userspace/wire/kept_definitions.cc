#include "userspace/wire/kept_definitions.h"

#include <algorithm>
#include <cstring>

#include "bpf/abi/gpu_records.h"
#include "bpf/abi/python_records.h"
#include "bpf/abi/read_record.h"
#include "bpf/abi/sample_records.h"
#include "bpf/abi/system_records.h"

namespace proftrace {
namespace {

// The bytes of an entry beside its record: a table's slot and the allocator's overhead.
constexpr size_t kBytesBeside = 96;
// The BPF programs record a file again after MOST_FILES_SINCE others
// (bpf/kernel/system_files.bpf.h). This is twice that number.
constexpr uint64_t kFilesKept = 65536;
constexpr size_t kMostStackWords = std::size(abi::pt_python_stack_record{}.words);

bool IsOfDevices(uint8_t kind) { return kind >= abi::PT_GPU_NAME; }

uint64_t CodeIdOf(uint64_t word) {
  return static_cast<uint32_t>((word & ~PT_PYTHON_FRAME_HAS_MODULE) >> 32);
}

// Calls visit(word, module) for each frame that a PT_PYTHON_STACK adds, outermost first; module 0 =
// none. False when the record ends before them.
template <typename Visitor>
bool ForEachFrame(std::span<const std::byte> record, Visitor&& visit) {
  const auto stack = ReadRecord<abi::pt_python_stack_record>(record);
  if (record.size() < PT_PYTHON_STACK_HEAD_BYTES) return false;
  const size_t words =
      std::min((record.size() - PT_PYTHON_STACK_HEAD_BYTES) / 8, std::size(stack.words));
  size_t at = 0;
  for (uint32_t i = 0; i < stack.count; ++i) {
    const size_t size = at < words && (stack.words[at] & PT_PYTHON_FRAME_HAS_MODULE) ? 2 : 1;
    if (at + size > words) return false;
    visit(stack.words[at], size == 2 ? stack.words[at + 1] : 0);
    at += size;
  }
  return true;
}

}  // namespace

void DefinitionUses::Add(std::span<const std::byte> records) {
  ForEachRecord(records, [this](const abi::pt_record& head, std::span<const std::byte> record) {
    const auto name = [&](uint64_t id) { keys.insert({abi::PT_GPU_NAME, head.pid, id}); };
    switch (head.kind) {
      case abi::PT_PYTHON_STACK:
        (void)ForEachFrame(record, [&](uint64_t word, uint64_t module) {
          keys.insert({abi::PT_PYTHON_CODE, 0, CodeIdOf(word)});
          if (module != 0) keys.insert({abi::PT_PYTHON_MODULE, head.pid, module});
        });
        break;
      case abi::PT_SAMPLE:
        keys.insert({abi::PT_SAMPLE_FRAME, 0, ReadRecord<abi::pt_sample_record>(record).frame});
        break;
      case abi::PT_WAKER:
        keys.insert({abi::PT_SAMPLE_FRAME, 0, ReadRecord<abi::pt_waker_record>(record).frame});
        break;
      case abi::PT_SAMPLE_FRAME: {
        const auto frame = ReadRecord<abi::pt_sample_frame_record>(record);
        keys.insert({abi::PT_SAMPLE_FRAME, 0, frame.parent});
        keys.insert({abi::PT_SAMPLE_FUNCTION, 0, frame.function});
        break;
      }
      case abi::PT_SYSTEM_CALL:
        AddFiles(record);
        break;
      case abi::PT_FAULT:
      case abi::PT_REQUEST:
        keys.insert({abi::PT_SYSTEM_FILE, 0, head.sp});
        break;
      case abi::PT_GPU_KERNEL:
        name(ReadRecord<abi::pt_gpu_kernel_record>(record).name);
        break;
      case abi::PT_GPU_CALL:
        name(ReadRecord<abi::pt_gpu_call_record>(record).name);
        break;
      case abi::PT_GPU_DEVICE:
        name(ReadRecord<abi::pt_gpu_device_record>(record).name);
        break;
      case abi::PT_GPU_MARKER: {
        const auto marker = ReadRecord<abi::pt_gpu_marker_record>(record);
        name(marker.name);
        name(marker.domain);
        break;
      }
      default:
        break;
    }
  });
}

void DefinitionUses::AddFiles(std::span<const std::byte> record) {
  const auto call = ReadRecord<abi::pt_system_call_record>(record);
  keys.insert({abi::PT_SYSTEM_FILE, 0, call.head.sp});
  if (call.path_bytes == 0) return;
  // The numbers of the directories at which its paths start are read as in SystemDecoder.
  const size_t at = size_t{8} * call.arguments +
                    ((call.flags & abi::PT_SYSTEM_HAS_TIME) != 0 ? 16 : 0) + call.address_bytes;
  uint32_t directories[2];
  if (at + sizeof(directories) > sizeof(call.tail)) return;
  std::memcpy(directories, call.tail + at, sizeof(directories));
  for (const uint32_t directory : directories) {
    keys.insert({abi::PT_SYSTEM_FILE, 0, directory});
  }
}

bool KeptDefinitions::Matters(uint8_t kind) {
  return IsToldOnce(kind) || kind == abi::PT_LOSS || kind == abi::PT_LOSS_ANYWHERE ||
         kind == abi::PT_WORK_TITLE || kind == abi::PT_WORK_BEGIN;
}

size_t KeptDefinitions::BytesOf(const Definition& definition) {
  return kBytesBeside + definition.records.capacity();
}

void KeptDefinitions::Drop(const DefinitionKey& key) {
  const auto it = definitions_.find(key);
  if (it == definitions_.end()) return;
  bytes_ -= BytesOf(it->second);
  definitions_.erase(it);
}

void KeptDefinitions::Define(const DefinitionKey& key, const abi::pt_record& head,
                             std::span<const std::byte> record) {
  Drop(key);
  if (key.kind == abi::PT_SYSTEM_FILE) {
    last_file_ = std::max<uint64_t>(last_file_, key.id);
  }
  const Definition& definition = definitions_
                                     .emplace(key, Definition{{record.begin(), record.end()},
                                                              head.pid,
                                                              static_cast<int64_t>(head.time_ns)})
                                     .first->second;
  bytes_ += BytesOf(definition);
}

void KeptDefinitions::GoOn(const DefinitionKey& key, std::span<const std::byte> record) {
  const auto it = definitions_.find(key);
  if (it == definitions_.end()) return;  // its beginning was lost
  bytes_ -= BytesOf(it->second);
  it->second.records.insert(it->second.records.end(), record.begin(), record.end());
  bytes_ += BytesOf(it->second);
}

void KeptDefinitions::LearnStack(std::span<const std::byte> record) {
  const auto stack = ReadRecord<abi::pt_python_stack_record>(record);
  Thread& thread = threads_[stack.head.tid];
  if (thread.pid != stack.head.pid) thread = Thread{stack.head.pid, 0, {}};
  thread.time_ns = static_cast<int64_t>(stack.head.time_ns);
  // As in PythonDecoder::OnStack(): the record says nothing without the stack that it is based on,
  // and a whole stack comes next.
  if (stack.common > thread.frames.size()) {
    thread.frames.clear();
    return;
  }
  thread.frames.resize(stack.common);
  const bool is_whole = ForEachFrame(record, [&thread](uint64_t word, uint64_t module) {
    thread.frames.push_back({word, module});
  });
  if (!is_whole) thread.frames.clear();
}

void KeptDefinitions::Learn(std::span<const std::byte> records) {
  ForEachRecord(records, [this](const abi::pt_record& head, std::span<const std::byte> record) {
    if (!Matters(head.kind)) return;
    if (const std::optional<DefinitionKey> key = DefinitionOf(record); key.has_value()) {
      Define(*key, head, record);
      if (head.kind == abi::PT_PYTHON_MODULE) told_modules_[head.tid] = *key;
      return;
    }
    if (const std::optional<DefinitionKey> key = ContinuationOf(record); key.has_value()) {
      GoOn(*key, record);
      return;
    }
    switch (head.kind) {
      case abi::PT_PYTHON_TEXT:  // of a module's class
        if (const auto told = told_modules_.find(head.tid); told != told_modules_.end()) {
          GoOn(told->second, record);
        }
        break;
      case abi::PT_PYTHON_STACK:
        LearnStack(record);
        break;
      case abi::PT_LOSS:
        threads_.erase(head.tid);
        break;
      case abi::PT_LOSS_ANYWHERE:
        threads_.clear();
        break;
      case abi::PT_WORK_TITLE:
        Define({head.kind, head.pid, ReadRecord<abi::pt_guard_record>(record).handle}, head,
               record);
        break;
      case abi::PT_WORK_BEGIN:
        Drop({abi::PT_WORK_TITLE, head.pid, ReadRecord<abi::pt_pointer_record>(record).value});
        break;
      case abi::PT_THREAD_EXIT: {
        threads_.erase(head.tid);
        told_modules_.erase(head.tid);
        const bool is_process = ReadRecord<abi::pt_exit_record>(record).group_dead != 0;
        ended_.push_back({head.pid, is_process ? 0 : head.tid, static_cast<int64_t>(head.time_ns)});
        break;
      }
      default:
        break;
    }
  });
}

void KeptDefinitions::Forget(std::span<const EndedTask> tasks, int64_t late_ns) {
  absl::flat_hash_map<uint32_t, int64_t> processes;  // by pid: when it ended
  for (const EndedTask& task : tasks) {
    if (task.tid == 0) {
      processes[task.pid] = task.end_ns;
    } else {
      const auto it = definitions_.find({abi::PT_THREAD_NUMBER, task.pid, task.tid});
      if (it != definitions_.end() && it->second.told_ns <= task.end_ns) Drop(it->first);
    }
  }
  if (processes.empty()) return;
  absl::erase_if(definitions_, [&](const auto& entry) {
    const auto ended = processes.find(entry.second.pid);
    // Files belong to the whole host. The pid may already be that of another process.
    if (entry.first.kind == abi::PT_SYSTEM_FILE) return false;
    if (ended == processes.end() || entry.second.told_ns > ended->second + late_ns) return false;
    bytes_ -= BytesOf(entry.second);
    return true;
  });
  absl::erase_if(threads_, [&](const auto& entry) {
    const auto ended = processes.find(entry.second.pid);
    return ended != processes.end() && entry.second.time_ns <= ended->second;
  });
}

void KeptDefinitions::KeepUsed(DefinitionUses uses) {
  for (const auto& [tid, thread] : threads_) {
    for (const Frame& frame : thread.frames) {
      uses.keys.insert({abi::PT_PYTHON_CODE, 0, CodeIdOf(frame.word)});
      if (frame.module != 0) uses.keys.insert({abi::PT_PYTHON_MODULE, thread.pid, frame.module});
    }
  }
  // A used frame also needs the frames that called it, whose numbers are lower.
  std::vector<DefinitionKey> frames;
  for (const auto& [key, definition] : definitions_) {
    if (key.kind == abi::PT_SAMPLE_FRAME) frames.push_back(key);
    if (key.kind == abi::PT_GPU_DEVICE) uses.Add(definition.records);
  }
  std::sort(frames.rbegin(), frames.rend());
  for (const DefinitionKey& key : frames) {
    if (uses.keys.contains(key)) uses.Add(definitions_.at(key).records);
  }
  absl::erase_if(definitions_, [&](const auto& entry) {
    const uint8_t kind = entry.first.kind;
    const bool is_told_by_use = kind == abi::PT_PYTHON_CODE || kind == abi::PT_PYTHON_MODULE ||
                                kind == abi::PT_SAMPLE_FUNCTION || kind == abi::PT_SAMPLE_FRAME ||
                                kind == abi::PT_GPU_NAME || kind == abi::PT_SYSTEM_FILE;
    // The BPF programs record a file again only when they have forgotten it.
    if (kind == abi::PT_SYSTEM_FILE && entry.first.id + kFilesKept > last_file_) return false;
    if (!is_told_by_use || uses.keys.contains(entry.first)) return false;
    bytes_ -= BytesOf(entry.second);
    return true;
  });
}

void KeptDefinitions::AppendStack(uint32_t tid, const Thread& thread,
                                  std::vector<std::byte>* records) {
  size_t at = 0;
  while (at < thread.frames.size()) {
    abi::pt_python_stack_record record{};
    record.common = static_cast<uint16_t>(at);
    size_t words = 0;
    for (; at < thread.frames.size() && words + 2 <= kMostStackWords; ++at) {
      record.words[words++] = thread.frames[at].word;
      if (thread.frames[at].module != 0) record.words[words++] = thread.frames[at].module;
      ++record.count;
    }
    const size_t bytes = PT_PYTHON_STACK_HEAD_BYTES + words * 8;
    record.head.time_ns = static_cast<uint64_t>(thread.time_ns);
    record.head.pid = thread.pid;
    record.head.tid = tid;
    record.head.kind = abi::PT_PYTHON_STACK;
    record.head.words = static_cast<uint8_t>(bytes / 8);
    const auto* begin = reinterpret_cast<const std::byte*>(&record);
    records->insert(records->end(), begin, begin + bytes);
  }
}

std::vector<std::vector<std::byte>> KeptDefinitions::ToBlocks(bool is_device,
                                                              size_t most_bytes) const {
  std::vector<std::vector<std::byte>> blocks;
  const auto add = [&](std::span<const std::byte> records) {
    if (blocks.empty() || blocks.back().size() + records.size() > most_bytes) {
      blocks.emplace_back();
    }
    blocks.back().insert(blocks.back().end(), records.begin(), records.end());
  };
  std::vector<DefinitionKey> keys;
  for (const auto& [key, definition] : definitions_) {
    if (IsOfDevices(key.kind) == is_device) keys.push_back(key);
  }
  std::sort(keys.begin(), keys.end());
  for (const DefinitionKey& key : keys) add(definitions_.at(key).records);
  if (is_device) return blocks;
  std::vector<uint32_t> tids;
  for (const auto& [tid, thread] : threads_) tids.push_back(tid);
  std::sort(tids.begin(), tids.end());
  std::vector<std::byte> stack;
  for (const uint32_t tid : tids) {
    stack.clear();
    AppendStack(tid, threads_.at(tid), &stack);
    add(stack);
  }
  return blocks;
}

}  // namespace proftrace
