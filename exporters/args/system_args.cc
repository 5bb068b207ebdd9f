#include "exporters/args/system_args.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/futex.h>
#include <linux/random.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>

#include "exporters/args/args_text.h"
#include "userspace/aggregate/sample_text.h"
#include "userspace/model/system_calls.h"

namespace proftrace {
namespace {

constexpr int64_t kNsPerMs = 1'000'000;

// Requests of ioctl whose argument points to an int. Some have a second name: SIOCINQ and TIOCINQ
// are FIONREAD, TIOCOUTQ is SIOCOUTQ.
constexpr uint32_t kIntRequests[] = {FIONREAD,  FIONBIO,   FIOASYNC, SIOCOUTQ,
                                     TIOCGPGRP, TIOCSPGRP, TIOCGSID, SIOCATMARK,
                                     BLKSSZGET, BLKROGET,  FIGETBSZ, RNDGETENTCNT};

bool IoctlTakesInt(uint32_t request) {
  return std::find(std::begin(kIntRequests), std::end(kIntRequests), request) !=
         std::end(kIntRequests);
}

void AddResult(const SystemEvent& event, int64_t result, ArgsText* args) {
  if (event.end == SpanEnd::kTruncated) return;
  args->Number("ret", result);
  if (result < 0 && result >= -kLastErrno) {
    args->Text("errno", ErrnoName(static_cast<int>(-result)));
  }
}

class CallArgs {
 public:
  CallArgs(const SystemTables& tables, const SystemEvent& event)
      : event_(event),
        call_(event.call),
        info_(FindSystemCall(call_.abi, call_.number)),
        file_(tables.File(event.file)),
        paths_(tables.Paths(call_.paths)) {
    count_ = std::min<size_t>(call_.argument_count, call_.arguments.size());
    if (info_ == nullptr) return;
    count_ = std::min<size_t>(count_, info_->argument_count);
    if (paths_ != nullptr && paths_->fields.size() == info_->fields.size() && IsStructureWhole()) {
      fields_ = paths_->fields;
    }
  }

  std::string Take() {
    for (size_t i = 0; i < count_; ++i) {
      if (info_ == nullptr) {
        args_.Text("arg" + std::to_string(i), HexText(Value(i)));
      } else if (IsUsed(i)) {
        AddArgument(i, info_->arguments[i]);
      }
    }
    if (!has_path_ && file_ != nullptr && !file_->name.empty()) args_.Text("path", file_->name);
    AddResult(event_, call_.result, &args_);
    return args_.Take();
  }

 private:
  // Returns an argument, or from kMostArguments on a field of the structure.
  uint64_t Value(size_t i) const {
    if (i >= kMostArguments)
      return i - kMostArguments < fields_.size() ? fields_[i - kMostArguments] : 0;
    return call_.arguments[i];
  }
  int32_t Int(size_t i) const { return static_cast<int32_t>(Value(i)); }

  // Returns the first argument, or field, of a kind; nullopt: there is none.
  std::optional<size_t> Find(ArgumentKind kind) const {
    for (size_t i = 0; i < count_; ++i) {
      if (info_->arguments[i].kind == kind) return i;
    }
    for (size_t i = 0; i < fields_.size(); ++i) {
      if (info_->fields[i].kind == kind) return kMostArguments + i;
    }
    return std::nullopt;
  }

  // Returns whether the structure has at least its first published size. The kernel reads nothing
  // of a shorter one.
  bool IsStructureWhole() const {
    const std::optional<size_t> size = Find(ArgumentKind::kStructureSize);
    return !size.has_value() || Value(*size) >= info_->fields.size() * sizeof(uint64_t);
  }

  // Returns whether the kernel looks at the argument at all.
  bool IsUsed(size_t i) const {
    const bool is_field = i >= kMostArguments;
    const ArgumentInfo& argument =
        is_field ? info_->fields[i - kMostArguments] : info_->arguments[i];
    if (argument.kind == ArgumentKind::kMode) {
      // openat2 rejects a mode that it does not need.
      if (is_field && Value(i) != 0) return true;
      const std::optional<size_t> flags = Find(ArgumentKind::kOpenFlags);
      return !flags.has_value() || (Int(*flags) & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))) != 0;
    }
    if (is_field) return !argument.name.empty();
    const std::optional<size_t> operation = Find(ArgumentKind::kFutexOperation);
    return !operation.has_value() || IsUsedByFutex(Int(*operation) & FUTEX_CMD_MASK, i);
  }

  // futex(uaddr, op, val, timeout, uaddr2, val3); futex(2).
  static bool IsUsedByFutex(int command, size_t i) {
    enum : size_t { kTimeout = 3, kSecondAddress = 4, kThirdValue = 5 };
    if (i < kTimeout) return true;
    switch (command) {
      case FUTEX_WAIT:
      case FUTEX_LOCK_PI:
      case FUTEX_LOCK_PI2:
        return i == kTimeout;
      case FUTEX_WAIT_BITSET:
        return i == kTimeout || i == kThirdValue;
      case FUTEX_WAKE_BITSET:
        return i == kThirdValue;
      case FUTEX_REQUEUE:
      case FUTEX_WAIT_REQUEUE_PI:
        return i == kTimeout || i == kSecondAddress;
      case FUTEX_CMP_REQUEUE:
      case FUTEX_CMP_REQUEUE_PI:
      case FUTEX_WAKE_OP:
        return true;
      default:
        return false;
    }
  }

  void AddArgument(size_t i, const ArgumentInfo& argument) {
    switch (argument.kind) {
      case ArgumentKind::kHex:
      case ArgumentKind::kPointer:
        return args_.Text(argument.name, HexText(Value(i)));
      case ArgumentKind::kFlags:
      case ArgumentKind::kTimerFlags:
      case ArgumentKind::kFutexOperation:
      case ArgumentKind::kOpenFlags:
      case ArgumentKind::kAtFlags:
      case ArgumentKind::kIoctlRequest:
        return args_.Text(argument.name, HexText(static_cast<uint32_t>(Value(i))));
      case ArgumentKind::kInt:
      case ArgumentKind::kWhence:
      case ArgumentKind::kOtherFd:
        return args_.Number(argument.name, Int(i));
      case ArgumentKind::kUnsigned:
        return args_.Unsigned(argument.name, static_cast<uint32_t>(Value(i)));
      case ArgumentKind::kCallNumber:
        if (Value(i) != 0) args_.Text(argument.name, SystemCallName(call_.abi, Value(i)));
        return;
      case ArgumentKind::kSize:
        return args_.Unsigned("bytes", Value(i));
      case ArgumentKind::kStructureSize:
      case ArgumentKind::kOtherSize:
        return args_.Unsigned(argument.name, Value(i));
      case ArgumentKind::kFd:
        return AddFd(i);
      case ArgumentKind::kTargetFd:
        args_.Number(argument.name, Int(i));
        if (paths_ != nullptr && !paths_->second.empty()) args_.Text("path2", paths_->second);
        return;
      case ArgumentKind::kDirectoryFd:
      case ArgumentKind::kSecondDirectoryFd:
        if (Int(i) == AT_FDCWD) return args_.Text(argument.name, "AT_FDCWD");
        return args_.Number(argument.name, Int(i));
      case ArgumentKind::kPath:
        return AddPath(i, argument);
      case ArgumentKind::kSecondPath:
        if (paths_ == nullptr || paths_->second.empty()) return AddPointer(i, argument);
        return args_.Text("path2", paths_->second);
      case ArgumentKind::kText:
        if (paths_ == nullptr || paths_->second.empty()) return AddPointer(i, argument);
        return args_.Text(argument.name, paths_->second);
      case ArgumentKind::kOpenHow:
      case ArgumentKind::kCloneArgs:
      case ArgumentKind::kMessage:
      case ArgumentKind::kReceivedMessage:
      case ArgumentKind::kMessages:
        return AddStructure(i, argument);
      case ArgumentKind::kIoctlArgument:
        return AddIoctlArgument(i, argument);
      case ArgumentKind::kOffset:
        return args_.Number(argument.name, static_cast<int64_t>(Value(i)));
      case ArgumentKind::kOffsetHigh:
        return;
      case ArgumentKind::kSockaddr:
        if (HasAddress()) return args_.Text("address", paths_->address);
        if (Value(i) != 0) AddPointer(i, argument);
        return;
      case ArgumentKind::kSockaddrLength:
        if (HasRawAddress()) args_.Unsigned(argument.name, static_cast<uint32_t>(Value(i)));
        return;
      case ArgumentKind::kSockaddrLengthPointer:
        if (HasRawAddress()) AddPointer(i, argument);
        return;
      case ArgumentKind::kTimespec:
      case ArgumentKind::kTimeval:
      case ArgumentKind::kDeadline:
        return AddTime(i, argument);
      case ArgumentKind::kTimeoutMs:
        if (Int(i) >= 0) args_.Number("timeout_ns", Int(i) * kNsPerMs);
        return;
      case ArgumentKind::kMode:
        return args_.Text(argument.name, OctalText(static_cast<uint32_t>(Value(i))));
      case ArgumentKind::kSignal:
        return args_.Text(argument.name, SignalName(Int(i)));
    }
  }

  void AddStructure(size_t i, const ArgumentInfo& argument) {
    if (fields_.empty()) return AddPointer(i, argument);
    for (size_t field = 0; field < fields_.size(); ++field) {
      const size_t place = kMostArguments + field;
      if (IsUsed(place)) AddArgument(place, info_->fields[field]);
    }
  }

  void AddPointer(size_t i, const ArgumentInfo& argument) {
    args_.Text(argument.name, HexText(Value(i)));
  }

  // Adds the argument of an ioctl. Only some requests point to an int, and only successful ones
  // left a value there.
  void AddIoctlArgument(size_t i, const ArgumentInfo& argument) {
    const std::optional<size_t> request = Find(ArgumentKind::kIoctlRequest);
    const bool is_int =
        request.has_value() && IoctlTakesInt(static_cast<uint32_t>(Value(*request)));
    if (!is_int || fields_.empty() || call_.result < 0) return AddPointer(i, argument);
    AddStructure(i, argument);
  }

  void AddFd(size_t i) {
    args_.Number("fd", Int(i));
    if (info_->places.path != 0 || file_ == nullptr || file_->name.empty()) return;
    args_.Text("path", file_->name);
    has_path_ = true;
  }

  void AddPath(size_t i, const ArgumentInfo& argument) {
    if (paths_ != nullptr && !paths_->first.empty()) {
      args_.Text("path", paths_->first);
      has_path_ = true;
    } else if (file_ == nullptr || file_->name.empty()) {
      AddPointer(i, argument);
    }
  }

  bool HasAddress() const { return paths_ != nullptr && !paths_->address.empty(); }
  // Returns whether the call has an address of which only the place in memory is known.
  bool HasRawAddress() const {
    return !HasAddress() && info_->places.address != 0 && Value(info_->places.address - 1u) != 0;
  }

  void AddTime(size_t i, const ArgumentInfo& argument) {
    if (const std::optional<size_t> operation = Find(ArgumentKind::kFutexOperation)) {
      switch (Int(*operation) & FUTEX_CMD_MASK) {
        case FUTEX_REQUEUE:
        case FUTEX_CMP_REQUEUE:
        case FUTEX_CMP_REQUEUE_PI:
        case FUTEX_WAKE_OP:
          return args_.Number("val2", Int(i));
        default:
          break;
      }
    }
    if (call_.time_ns >= 0) {
      args_.Number(IsDeadline(argument.kind) ? "deadline_ns" : "timeout_ns", call_.time_ns);
    } else if (Value(i) != 0) {
      AddPointer(i, argument);
    }
  }

  bool IsDeadline(ArgumentKind kind) const {
    if (kind == ArgumentKind::kDeadline) return true;
    if (const std::optional<size_t> flags = Find(ArgumentKind::kTimerFlags)) {
      return (Int(*flags) & TIMER_ABSTIME) != 0;
    }
    const std::optional<size_t> operation = Find(ArgumentKind::kFutexOperation);
    // FUTEX_WAIT is the only wait for a duration (futex(2)).
    return operation.has_value() && (Int(*operation) & FUTEX_CMD_MASK) != FUTEX_WAIT;
  }

  const SystemEvent& event_;
  const SystemCallFacts& call_;
  const SystemCallInfo* info_;        // nullptr: not known
  const SystemFile* file_;            // nullptr: none
  const SystemPaths* paths_;          // nullptr: none
  std::span<const uint64_t> fields_;  // fields of the structure that an argument points to
  size_t count_ = 0;
  bool has_path_ = false;
  ArgsText args_;
};

void AddFile(const SystemTables& tables, const SystemEvent& event, ArgsText* args) {
  const SystemFile* file = tables.File(event.file);
  if (file != nullptr && !file->name.empty()) args->Text("path", file->name);
}

std::string OffCpuArgs(const SystemEvent& event) {
  const OffCpuFacts& facts = event.off_cpu;
  ArgsText args;
  args.Number("run_queue_ns", facts.run_queue_ns);
  args.Bool("voluntary", facts.voluntary);
  args.Bool("uninterruptible", facts.uninterruptible);
  args.Bool("disk", facts.disk);
  if (facts.call >= 0) {
    args.Text("syscall", SystemCallName(facts.abi, static_cast<uint64_t>(facts.call)));
  }
  if (Raw(facts.waker_pid) != 0) {
    args.Unsigned("waker_pid", Raw(facts.waker_pid));
    args.Unsigned("waker_tid", Raw(facts.waker_tid));
  }
  args.Unsigned("from_cpu", facts.from_cpu);
  args.Unsigned("to_cpu", facts.to_cpu);
  return args.Take();
}

std::string FaultArgs(const SystemTables& tables, const SystemEvent& event) {
  const FaultFacts& facts = event.fault;
  ArgsText args;
  args.Text("address", HexText(facts.address));
  args.Text("area", FaultAreaName(facts.area));
  AddFile(tables, event, &args);
  if (facts.area == FaultArea::kFile) args.Unsigned("offset", facts.offset);
  args.Bool("write", facts.write);
  args.Bool("in_kernel", facts.in_kernel);
  return args.Take();
}

std::string RequestArgs(const SystemTables& tables, const SystemEvent& event) {
  const RequestFacts& facts = event.request;
  ArgsText args;
  args.Text("opcode", RequestName(facts.opcode));
  AddFile(tables, event, &args);
  constexpr uint64_t kNotKnown = ~uint64_t{0};
  if (facts.offset != kNotKnown) args.Unsigned("offset", facts.offset);
  if (facts.bytes != kNotKnown) args.Unsigned("bytes", facts.bytes);
  args.Text("user_data", HexText(facts.user_data));
  AddResult(event, facts.result, &args);
  return args.Take();
}

}  // namespace

std::string SystemArgs(const SystemTables& tables, const SystemEvent& event) {
  switch (event.kind) {
    case SystemKind::kCall:
      return CallArgs(tables, event).Take();
    case SystemKind::kOffCpu:
      return OffCpuArgs(event);
    case SystemKind::kFault:
      return FaultArgs(tables, event);
    case SystemKind::kRequest:
      return RequestArgs(tables, event);
  }
  return "";
}

std::string SystemArgs(const Timeline& timeline, const SystemEvent& event) {
  constexpr size_t kMostFrames = 64;
  std::string args = SystemArgs(timeline.system_tables(), event);
  if (event.kind != SystemKind::kOffCpu || event.off_cpu.waker_frame == 0) return args;
  std::string stack;
  for (const std::string& function :
       SampleStackTexts(timeline, event.off_cpu.waker_frame, kMostFrames)) {
    stack += (stack.empty() ? "" : " < ") + function;
  }
  ArgsText text;
  text.Text("waker_stack", stack);
  return args + ", " + text.Take();
}

}  // namespace proftrace
