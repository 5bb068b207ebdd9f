#include "userspace/decode/system_decoder.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "bpf/abi/read_record.h"
#include "userspace/decode/socket_text.h"
#include "userspace/model/system_calls.h"

namespace proftrace {
namespace {

constexpr size_t kMostLateFiles = size_t{1} << 17;
// The bytes of events in memory; the rest is spilled.
constexpr size_t kSystemMemoryBytes = size_t{64} << 20;
constexpr uint64_t kLongestNs = uint64_t{1} << 59;
// Bits of task_struct.__state (include/linux/sched.h).
constexpr uint32_t kTaskUninterruptible = 0x2;
constexpr uint32_t kTaskStopped = 0x4 | 0x8;

// include/linux/errno.h of the kernel: ERESTARTSYS to ERESTARTNOHAND, and ERESTART_RESTARTBLOCK.
bool IsRestart(int64_t result) { return (result <= -512 && result >= -514) || result == -516; }

WaitReason ReasonOf(const abi::pt_off_cpu_record& record) {
  if ((record.off_flags & abi::PT_OFF_CPU_NEW) != 0) return WaitReason::kNew;
  if (record.state == 0) return WaitReason::kPreempted;
  if ((record.state & kTaskStopped) != 0) return WaitReason::kStopped;
  if ((record.off_flags & abi::PT_OFF_CPU_FAULT) != 0) return WaitReason::kFault;
  if ((record.off_flags & abi::PT_OFF_CPU_FILE_LOCK) != 0) return WaitReason::kLock;
  if (record.call < 0) {
    return (record.off_flags & abi::PT_OFF_CPU_IO) != 0 ? WaitReason::kIo : WaitReason::kOther;
  }
  const WaitReason reason = ReasonOfCall(static_cast<SystemAbi>(record.abi), record.call);
  if (reason == WaitReason::kPoll && (record.off_flags & abi::PT_OFF_CPU_NO_FILE) != 0) {
    return WaitReason::kSleep;
  }
  if (reason == WaitReason::kLock && record.lock == abi::PT_AWAITED_GIL) return WaitReason::kGil;
  if (reason == WaitReason::kLock && (record.off_flags & abi::PT_OFF_CPU_EVENT) != 0) {
    return WaitReason::kEvent;
  }
  const bool is_disk = (record.off_flags & abi::PT_OFF_CPU_IO) != 0;
  return reason == WaitReason::kOther && is_disk ? WaitReason::kIo : reason;
}

// Returns whether an empty path means the file or directory itself (AT_EMPTY_PATH), as fstat() uses
// it.
bool TakesEmptyPath(const SystemCallFacts& call) {
  const SystemCallInfo* info = FindSystemCall(call.abi, call.number);
  if (info == nullptr) return false;
  for (size_t i = 0; i < std::min(call.argument_count, info->argument_count); ++i) {
    if (info->arguments[i].kind == ArgumentKind::kAtFlags &&
        (call.arguments[i] & AT_EMPTY_PATH) != 0) {
      return true;
    }
  }
  return false;
}

// Returns whether the call has a path to read. Some calls take none, and some fail because its
// address is bad.
bool HasPath(const SystemCallFacts& call) {
  const SystemCallInfo* info = FindSystemCall(call.abi, call.number);
  if (info == nullptr || info->places.path == 0 || call.result == -EFAULT) return false;
  return call.arguments[info->places.path - size_t{1}] != 0;
}

// Returns the first fields of the structure that the call's argument points to. They begin at `at`
// in the tail.
std::vector<uint64_t> FieldsOf(const abi::pt_system_call_record& record, size_t at,
                               size_t tail_bytes) {
  const SystemCallInfo* info = FindSystemCall(static_cast<SystemAbi>(record.abi), record.head.site);
  if (info == nullptr || (record.flags & abi::PT_SYSTEM_HAS_STRUCTURE) == 0) return {};
  const size_t field_bytes = info->fields_are_32 ? sizeof(uint32_t) : sizeof(uint64_t);
  at = (at + 7) / 8 * 8;
  if (at + info->fields.size() * field_bytes > tail_bytes) return {};
  std::vector<uint64_t> fields(info->fields.size());
  for (uint64_t& field : fields) {
    std::memcpy(&field, record.tail + at, field_bytes);
    at += field_bytes;
  }
  return fields;
}

}  // namespace

bool SystemDecoder::OnRecord(std::span<const std::byte> record) {
  switch (ReadRecord<abi::pt_record>(record).kind) {
    case abi::PT_SYSTEM_CALL: {
      const auto call = ReadRecord<abi::pt_system_call_record>(record);
      const size_t tail = std::min(record.size(), sizeof(call)) - PT_SYSTEM_CALL_HEAD_BYTES;
      const size_t needed = size_t{8} * call.arguments +
                            ((call.flags & abi::PT_SYSTEM_HAS_TIME) != 0 ? 16 : 0) +
                            call.address_bytes + call.path_bytes + (call.path_bytes != 0 ? 8 : 0);
      return needed <= tail && OnCall(call, tail);
    }
    case abi::PT_OFF_CPU:
      return OnOffCpu(ReadRecord<abi::pt_off_cpu_record>(record));
    case abi::PT_FAULT:
      return OnFault(ReadRecord<abi::pt_fault_record>(record));
    case abi::PT_REQUEST:
      return OnRequest(ReadRecord<abi::pt_request_record>(record));
    case abi::PT_SYSTEM_FILE: {
      const auto file = ReadRecord<abi::pt_system_file_record>(record);
      const size_t text = std::min(record.size(), sizeof(file)) - PT_SYSTEM_FILE_HEAD_BYTES;
      return file.bytes <= text && OnFile(file);
    }
  }
  return false;
}

bool SystemDecoder::Begin(const abi::pt_record& head, uint64_t duration_ns, uint16_t lost,
                          uint8_t flags, SystemEvent* event) {
  if (head.time_ns > kLongestNs || duration_ns > kLongestNs) return false;
  event->start_ns = static_cast<int64_t>(head.time_ns);
  event->duration_ns = static_cast<int64_t>(duration_ns);
  event->open_at_begin = (flags & abi::PT_SYSTEM_OPEN_AT_BEGIN) != 0;
  if ((flags & abi::PT_SYSTEM_UNFINISHED) != 0) event->end = SpanEnd::kTruncated;
  const auto [it, is_new] =
      threads_.try_emplace(uint64_t{head.pid} << 32 | head.tid, ThreadState{});
  ThreadState& thread = it->second;
  if (is_new) {
    thread.index = static_cast<uint32_t>(tables_.threads.size());
    tables_.threads.push_back({Pid{head.pid}, Tid{head.tid}, {}});
  }
  event->thread = ThreadIndex{thread.index};
  if (lost > 0) {
    tables_.threads[thread.index].losses.push_back({thread.last_end_ns, event->end_ns()});
  }
  thread.last_end_ns = std::max(thread.last_end_ns, event->end_ns());
  return true;
}

void SystemDecoder::Add(const SystemEvent& event) {
  if (!tables_.status.ok()) return;
  if (tables_.events == nullptr) {
    tables_.events = std::make_unique<SystemEventStore>(spill_directory_, kSystemMemoryBytes);
  }
  tables_.status = tables_.events->Append(event);
}

SystemFileId SystemDecoder::FileOf(uint32_t id) const {
  if (const auto found = file_numbers_.find(id); found != file_numbers_.end()) {
    return SystemFileId{found->second};
  }
  const auto late = late_files_.find(id);
  return late == late_files_.end() ? kNoSystemFile : SystemFileId{late->second};
}

std::string SystemDecoder::Absolute(uint32_t directory, std::string_view path) const {
  if (path.starts_with('/') || path.empty()) return std::string(path);
  const std::string& base = tables_.files[Raw(FileOf(directory))].name;
  if (base.empty()) return std::string(path);
  if (path == ".") return base;
  while (path.starts_with("./")) path.remove_prefix(2);
  return base + (base.ends_with('/') ? "" : "/") + std::string(path);
}

namespace {

std::string KeyOf(const SystemPaths& paths) {
  std::string key = paths.first;
  key.append(1, '\0').append(paths.second).append(1, '\0').append(paths.address);
  for (const uint64_t field : paths.fields) key.append(1, '\0').append(std::to_string(field));
  return key;
}

// Returns the group that stands for paths that are not kept, without the fields of structures,
// which may be any numbers.
SystemPaths GroupOf(const SystemPaths& paths) {
  SystemPaths group;
  group.first = GroupOfName(paths.first).value_or(paths.first);
  group.second = GroupOfName(paths.second).value_or(paths.second);
  group.address = GroupOfName(paths.address).value_or(paths.address);
  return group;
}

SystemPaths OthersLike(const SystemPaths& paths) {
  SystemPaths others;
  if (!paths.first.empty()) others.first = kOtherNames;
  if (!paths.second.empty()) others.second = kOtherNames;
  if (!paths.address.empty()) others.address = kOtherNames;
  return others;
}

}  // namespace

SystemPathsId SystemDecoder::AddPaths(std::string key, SystemPaths paths) {
  const SystemPathsId id{static_cast<uint32_t>(tables_.paths.size())};
  path_text_bytes_ += key.size();
  paths_ids_.emplace(std::move(key), id);
  tables_.paths.push_back(std::move(paths));
  return id;
}

SystemPathsId SystemDecoder::InternPaths(SystemPaths paths) {
  if (paths == SystemPaths()) return kNoSystemPaths;
  std::string key = KeyOf(paths);
  if (const auto known = paths_ids_.find(key); known != paths_ids_.end()) return known->second;
  const size_t kept = tables_.paths.size() - 1 - path_groups_;  // the first one means nothing
  if (kept < limits_.entries && path_text_bytes_ < limits_.text_bytes) {
    return AddPaths(std::move(key), std::move(paths));
  }
  ++tables_.other_paths;
  for (SystemPaths instead : {GroupOf(paths), OthersLike(paths)}) {
    if (instead == SystemPaths()) return kNoSystemPaths;
    key = KeyOf(instead);
    if (const auto known = paths_ids_.find(key); known != paths_ids_.end()) return known->second;
    if (path_groups_ >= limits_.groups && instead != OthersLike(paths)) continue;
    ++path_groups_;
    return AddPaths(std::move(key), std::move(instead));
  }
  return kNoSystemPaths;
}

SystemPaths SystemDecoder::PathsOf(const abi::pt_system_call_record& record, size_t at,
                                   const SystemCallFacts& call) {
  SystemPaths paths;
  uint32_t directories[2];
  std::memcpy(directories, record.tail + at, sizeof(directories));
  at += sizeof(directories);
  const auto absolute = [&](uint32_t directory, std::string_view path) {
    const bool is_cut =
        (record.flags & abi::PT_SYSTEM_PATH_CUT) != 0 && path.size() + 1 >= PT_SYSTEM_PATH_BYTES;
    if (is_cut) ++ledger_->names_cut;
    return Absolute(directory, path) + (is_cut ? "…" : "");
  };
  const std::string_view text(reinterpret_cast<const char*>(record.tail + at), record.path_bytes);
  const size_t end = std::min(text.find('\0'), text.size());
  paths.first = end == 0 && TakesEmptyPath(call) ? tables_.files[Raw(FileOf(directories[0]))].name
                                                 : absolute(directories[0], text.substr(0, end));
  if ((record.flags & abi::PT_SYSTEM_HAS_SECOND_PATH) == 0 || end + 1 >= text.size()) return paths;
  const std::string_view rest = text.substr(end + 1);
  const std::string_view second = rest.substr(0, rest.find('\0'));
  const bool is_file = second.empty() && (record.flags & abi::PT_SYSTEM_HAS_PATH) == 0;
  paths.second =
      is_file ? tables_.files[Raw(FileOf(directories[1]))].name : absolute(directories[1], second);
  return paths;
}

bool SystemDecoder::OnCall(const abi::pt_system_call_record& record, size_t tail_bytes) {
  SystemEvent event;
  if (record.abi >= abi::PT_SYSTEM_ABIS || record.arguments > 6 ||
      !Begin(record.head, record.duration_ns, record.lost, record.flags, &event)) {
    return false;
  }
  event.kind = SystemKind::kCall;
  event.file = FileOf(record.head.sp);
  SystemCallFacts& call = event.call;
  call.result = record.result;
  call.number = record.head.site;
  call.abi = static_cast<SystemAbi>(record.abi);
  call.argument_count = record.arguments;
  size_t at = size_t{8} * record.arguments;
  std::memcpy(call.arguments.data(), record.tail, at);
  if ((record.flags & abi::PT_SYSTEM_HAS_TIME) != 0) {
    uint64_t time[2];
    std::memcpy(time, record.tail + at, sizeof(time));
    at += sizeof(time);
    // The value that a program passes may be no valid time.
    constexpr uint64_t kSecondNs = 1'000'000'000;
    if (time[0] < kLongestNs / kSecondNs && time[1] < kSecondNs) {
      call.time_ns = static_cast<int64_t>(time[0] * kSecondNs + time[1]);
    }
  }
  const size_t address_at = at;
  at += record.address_bytes;
  SystemPaths paths;
  if (record.path_bytes > 0) {
    paths = PathsOf(record, at, call);
    at += 2 * sizeof(uint32_t) + record.path_bytes;
  }
  if (record.address_bytes > 0) {
    paths.address = SocketAddressText({record.tail + address_at, record.address_bytes});
  }
  if ((record.flags & abi::PT_SYSTEM_PATH_UNREAD) != 0 && HasPath(call)) ++ledger_->inputs_unread;
  paths.fields = FieldsOf(record, at, tail_bytes);
  call.paths = InternPaths(std::move(paths));
  Add(event);
  return true;
}

bool SystemDecoder::OnOffCpu(const abi::pt_off_cpu_record& record) {
  SystemEvent event;
  if (record.abi >= abi::PT_SYSTEM_ABIS || record.run_queue_ns > record.duration_ns ||
      !Begin(record.head, record.duration_ns, record.lost, record.flags, &event)) {
    return false;
  }
  event.kind = SystemKind::kOffCpu;
  OffCpuFacts facts{};
  facts.run_queue_ns = static_cast<int64_t>(record.run_queue_ns);
  facts.wake_up_ns = record.head.sp;
  facts.waker_frame = 0;
  facts.call = std::max(record.call, -1);
  facts.from_cpu = record.head.site;
  facts.to_cpu = record.cpu;
  facts.reason = ReasonOf(record);
  facts.abi = static_cast<SystemAbi>(record.abi);
  facts.voluntary = (record.off_flags & abi::PT_OFF_CPU_VOLUNTARY) != 0;
  facts.uninterruptible = (record.state & kTaskUninterruptible) != 0;
  facts.disk = (record.off_flags & abi::PT_OFF_CPU_IO) != 0;
  // Clocks and disks wake threads by an interrupt. The thread that the interrupt hit is not the
  // waker.
  if (facts.reason != WaitReason::kSleep && !facts.disk) {
    facts.waker_pid = Pid{record.waker_pid};
    facts.waker_tid = Tid{record.waker_tid};
  }
  event.off_cpu = facts;
  Add(event);
  return true;
}

bool SystemDecoder::OnFault(const abi::pt_fault_record& record) {
  SystemEvent event;
  if (record.area > abi::PT_FAULT_ANONYMOUS ||
      !Begin(record.head, record.duration_ns, record.lost, 0, &event)) {
    return false;
  }
  event.kind = SystemKind::kFault;
  event.file = FileOf(record.head.sp);
  FaultFacts facts{};
  facts.address = record.address;
  facts.offset = record.offset;
  facts.area = static_cast<FaultArea>(record.area);
  facts.major = (record.fault_flags & abi::PT_FAULT_MAJOR) != 0;
  facts.write = (record.fault_flags & abi::PT_FAULT_WRITE) != 0;
  facts.in_kernel = (record.fault_flags & abi::PT_FAULT_IN_KERNEL) != 0;
  event.fault = facts;
  Add(event);
  return true;
}

bool SystemDecoder::OnRequest(const abi::pt_request_record& record) {
  SystemEvent event;
  if (!Begin(record.head, record.duration_ns, record.lost, record.flags, &event)) return false;
  event.kind = SystemKind::kRequest;
  event.file = FileOf(record.head.sp);
  RequestFacts facts{};
  facts.result = record.result;
  facts.offset = record.offset;
  facts.bytes = record.bytes;
  facts.user_data = record.user_data;
  facts.opcode = record.head.site;
  event.request = facts;
  Add(event);
  return true;
}

bool SystemDecoder::OnFile(const abi::pt_system_file_record& record) {
  if (record.kind > abi::PT_SYSTEM_FILE_ANONYMOUS || record.head.sp == 0) return false;
  SystemFile file;
  file.kind = static_cast<SystemFileKind>(record.kind);
  file.inode = record.inode;
  file.device = record.device;
  const std::span<const uint8_t> text(record.text, record.bytes);
  file.name = file.kind == SystemFileKind::kSocket
                  ? SocketText(text, record.inode)
                  : FileText(file.kind, text, record.flags, record.inode);
  // A file is defined again where a capture was put together from parts.
  const auto known = file_numbers_.find(record.head.sp);
  if (known != file_numbers_.end()) {
    tables_.files[known->second] = std::move(file);
    return true;
  }
  if (file_numbers_.size() >= limits_.entries || file_text_bytes_ >= limits_.text_bytes) {
    ++tables_.other_files;
    if (late_files_.size() >= kMostLateFiles) late_files_.clear();
    late_files_[record.head.sp] = FileInstead(file);
    return true;
  }
  file_text_bytes_ += file.name.size();
  file_numbers_[record.head.sp] = static_cast<uint32_t>(tables_.files.size());
  tables_.files.push_back(std::move(file));
  return true;
}

uint32_t SystemDecoder::FileInstead(const SystemFile& file) {
  SystemFile instead;
  instead.kind = file.kind;
  for (std::string name : {GroupOfName(file.name).value_or(file.name), std::string(kOtherNames)}) {
    const std::string key = std::to_string(static_cast<int>(file.kind)) + ' ' + name;
    const auto known = file_groups_.find(key);
    if (known != file_groups_.end()) return known->second;
    if (file_groups_.size() >= limits_.groups && name != kOtherNames) continue;
    const auto number = static_cast<uint32_t>(tables_.files.size());
    file_groups_.emplace(key, number);
    instead.name = std::move(name);
    tables_.files.push_back(std::move(instead));
    return number;
  }
  return 0;  // never reached, because the last name always has room
}

void SystemDecoder::OnThreadExit(Pid pid, Tid tid, int64_t time_ns) {
  exits_[uint64_t{Raw(pid)} << 32 | Raw(tid)].push_back(time_ns);
}

void SystemDecoder::EndBrokenCalls() {
  if (tables_.events == nullptr || exits_.empty()) return;
  for (auto& [thread, times] : exits_) std::sort(times.begin(), times.end());
  struct Broken {
    uint32_t event = kNoSystemEvent;
    int64_t end_ns = 0;
  };
  std::vector<Broken> last(tables_.threads.size());  // of each thread, while no call follows
  // Marks the thread's broken call where the thread ended after the call and by `until_ns`.
  const auto settle = [&](uint32_t thread, int64_t until_ns) {
    const Broken broken = std::exchange(last[thread], Broken());
    if (broken.event == kNoSystemEvent) return;
    const SystemDecoder::ThreadTable& table = tables_.threads[thread];
    const auto times = exits_.find(uint64_t{Raw(table.pid)} << 32 | Raw(table.tid));
    if (times == exits_.end()) return;
    const auto exit = std::lower_bound(times->second.begin(), times->second.end(), broken.end_ns);
    if (exit != times->second.end() && *exit <= until_ns) {
      tables_.events->at(broken.event).end = SpanEnd::kTruncated;
    }
  };
  for (uint32_t i = 0; i < tables_.events->size(); ++i) {
    const SystemEvent& event = tables_.events->at(i);
    if (event.kind != SystemKind::kCall) continue;
    const uint32_t thread = Raw(event.thread);
    settle(thread, event.start_ns);
    if (event.end == SpanEnd::kReturn && IsRestart(event.call.result)) {
      last[thread] = {i, event.end_ns()};
    }
  }
  for (uint32_t i = 0; i < last.size(); ++i) settle(i, std::numeric_limits<int64_t>::max());
}

SystemDecoder::Tables SystemDecoder::TakeTables() {
  EndBrokenCalls();
  return std::move(tables_);
}

}  // namespace proftrace
