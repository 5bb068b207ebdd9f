#include "userspace/model/system_calls.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "userspace/model/system_call_rows.h"

namespace proftrace {
namespace {

struct NumberedName {
  uint16_t number;
  std::string_view name;
};

// CMakeLists.txt makes these tables from the kernel's and libc's headers.
constexpr NumberedName kCalls[] = {
#include "userspace/model/system_calls_x86_64.inc"
};
constexpr NumberedName kErrnoNames[] = {
#include "userspace/model/errno_names.inc"
};
constexpr NumberedName kSignalNames[] = {
#include "userspace/model/signal_names.inc"
};
constexpr NumberedName kRequestNames[] = {
#include "userspace/model/io_uring_names.inc"
};

// Errors that no program sees (the kernel's include/linux/errno.h).
constexpr NumberedName kKernelErrnoNames[] = {
    {512, "ERESTARTSYS"},
    {513, "ERESTARTNOINTR"},
    {514, "ERESTARTNOHAND"},
    {515, "ENOIOCTLCMD"},
    {516, "ERESTART_RESTARTBLOCK"},
    {517, "EPROBE_DEFER"},
    {518, "EOPENSTALE"},
    {519, "ENOPARAM"},
    {521, "EBADHANDLE"},
    {522, "ENOTSYNC"},
    {523, "EBADCOOKIE"},
    {524, "ENOTSUPP"},
    {525, "ETOOSMALL"},
    {526, "ESERVERFAULT"},
    {527, "EBADTYPE"},
    {528, "EJUKEBOX"},
    {529, "EIOCBQUEUED"},
    {530, "ERECALLCONFLICT"},
};

constexpr int kFirstRealTimeSignal = 32;  // the kernel's; libc keeps the first two for itself
constexpr int kSignals = 64;

// Returns the name of a number; empty: it has none.
template <size_t kSize>
std::string_view NameOf(const NumberedName (&names)[kSize], uint64_t number) {
  const auto* found = std::lower_bound(
      std::begin(names), std::end(names), number,
      [](const NumberedName& name, uint64_t wanted) { return name.number < wanted; });
  return found != std::end(names) && found->number == number ? found->name : std::string_view();
}

WaitReason ReasonOf(CallClass call_class) {
  switch (call_class) {
    case CallClass::kFileIo:
    case CallClass::kNetworkIo:
      return WaitReason::kIo;
    case CallClass::kLock:
      return WaitReason::kLock;
    case CallClass::kPoll:
      return WaitReason::kPoll;
    case CallClass::kSleep:
      return WaitReason::kSleep;
    case CallClass::kChild:
      return WaitReason::kChild;
    case CallClass::kSignal:
      return WaitReason::kSignal;
    case CallClass::kQueue:
      return WaitReason::kEvent;
    case CallClass::kOther:
    case CallClass::kMemory:
    case CallClass::kProcess:
      break;
  }
  return WaitReason::kOther;
}

// The fields of structures, by openat2(2), clone3 in clone(2), and sendmsg(2).
constexpr ArgumentInfo kOpenHowFields[] = {{"flags", ArgumentKind::kOpenFlags},
                                           {"mode", ArgumentKind::kMode},
                                           {"resolve", ArgumentKind::kHex}};
constexpr ArgumentInfo kCloneArgsFields[] = {{"flags", ArgumentKind::kHex},
                                             {},
                                             {},
                                             {},
                                             {"exit_signal", ArgumentKind::kSignal},
                                             {"stack", ArgumentKind::kPointer},
                                             {"stack_size", ArgumentKind::kOtherSize},
                                             {}};
constexpr ArgumentInfo kMessageFields[] = {{"msg_name", ArgumentKind::kSockaddr},
                                           {"msg_namelen", ArgumentKind::kSockaddrLength},
                                           {},
                                           {"msg_iovlen", ArgumentKind::kOtherSize}};
constexpr ArgumentInfo kMessagesFields[] = {{"bytes", ArgumentKind::kSize}};
constexpr ArgumentInfo kIoctlFields[] = {{"value", ArgumentKind::kInt}};
constexpr uint8_t kMessageBytes = 64;  // sizeof(struct mmsghdr)

void SetArguments(const SystemCallRow& row, SystemCallInfo* info) {
  size_t count = 0;
  for (const ArgumentInfo& argument : row.arguments) {
    if (argument.name.empty()) break;
    info->arguments[count++] = argument;
  }
  info->argument_count = static_cast<uint8_t>(count);
}

void SetStructure(uint8_t place, ArgumentKind kind, SystemCallInfo* info) {
  const bool is_message = kind == ArgumentKind::kMessage || kind == ArgumentKind::kReceivedMessage;
  info->places.structure = place;
  info->fields = StructureFields(kind);
  info->fields_are_32 = kind == ArgumentKind::kIoctlArgument;
  if (kind == ArgumentKind::kMessages) info->message_bytes = kMessageBytes;
  if (is_message) {
    info->places.address = kMostArguments + 1;
    info->places.address_bytes = kMostArguments + 2;
    info->fills_address = kind == ArgumentKind::kReceivedMessage;
  }
}

void SetPlaces(SystemCallInfo* info) {
  for (uint8_t i = 0; i < info->argument_count; ++i) {
    const uint8_t place = i + 1;
    switch (info->arguments[i].kind) {
      case ArgumentKind::kFd:
        info->places.fd = place;
        break;
      case ArgumentKind::kPath:
        info->places.path = place;
        break;
      case ArgumentKind::kDirectoryFd:
        info->places.directory = place;
        break;
      case ArgumentKind::kSecondPath:
        info->places.second_path = place;
        break;
      case ArgumentKind::kSecondDirectoryFd:
      case ArgumentKind::kTargetFd:
        info->places.second_directory = place;
        break;
      case ArgumentKind::kText:
        info->places.second_path = place;
        info->second_is_text = true;
        break;
      case ArgumentKind::kOpenHow:
      case ArgumentKind::kCloneArgs:
      case ArgumentKind::kMessage:
      case ArgumentKind::kReceivedMessage:
      case ArgumentKind::kMessages:
      case ArgumentKind::kIoctlArgument:
        SetStructure(place, info->arguments[i].kind, info);
        break;
      case ArgumentKind::kSockaddr:
        info->places.address = place;
        break;
      case ArgumentKind::kSockaddrLengthPointer:
        info->fills_address = true;
        info->places.address_bytes = place;
        break;
      case ArgumentKind::kSockaddrLength:
        info->places.address_bytes = place;
        break;
      case ArgumentKind::kTimeval:
      case ArgumentKind::kTimespec:
      case ArgumentKind::kDeadline:
        info->places.time = place;
        info->time_is_timeval = info->arguments[i].kind == ArgumentKind::kTimeval;
        break;
      default:
        break;
    }
  }
}

void Describe(const SystemCallRow& row, SystemCallInfo* info) {
  info->is_described = true;
  info->call_class = row.call_class;
  info->wait_reason = ReasonOf(row.call_class);
  info->is_io = row.call_class == CallClass::kFileIo || row.call_class == CallClass::kNetworkIo;
  info->gives_file = (row.flags & kGivesFile) != 0;
  info->renames = (row.flags & kRenames) != 0;
  info->execs = (row.flags & kExecs) != 0;
  info->ends_thread = (row.flags & kEndsThread) != 0;
  info->leaves_time = (row.flags & kLeavesTime) != 0;
  info->changes_directory = (row.flags & kChangesDirectory) != 0;
  SetArguments(row, info);
  SetPlaces(info);
}

class CallTable {
 public:
  CallTable() {
    absl::flat_hash_map<std::string_view, const SystemCallRow*> rows;
    for (const SystemCallRow& row : FileAndSocketRows()) rows.emplace(row.name, &row);
    for (const SystemCallRow& row : OtherRows()) rows.emplace(row.name, &row);
    for (const NumberedName& name : kCalls) {
      if (name.number >= kSystemCallNumbers) continue;
      if (name.number >= calls_.size()) calls_.resize(name.number + size_t{1});
      SystemCallInfo* info = &calls_[name.number];
      info->name = name.name;
      const auto row = rows.find(name.name);
      if (row != rows.end()) {
        Describe(*row->second, info);
      } else {
        SetUnknownArguments(info);
      }
    }
  }

  const SystemCallInfo* Find(uint64_t number) const {
    return number < calls_.size() && !calls_[number].name.empty() ? &calls_[number] : nullptr;
  }

 private:
  static void SetUnknownArguments(SystemCallInfo* info) {
    constexpr std::string_view kNames[kMostArguments] = {"arg0", "arg1", "arg2",
                                                         "arg3", "arg4", "arg5"};
    for (size_t i = 0; i < kMostArguments; ++i) info->arguments[i].name = kNames[i];
    info->argument_count = kMostArguments;
  }

  std::vector<SystemCallInfo> calls_;  // by number; a call without a name is unknown
};

}  // namespace

std::span<const ArgumentInfo> StructureFields(ArgumentKind kind) {
  switch (kind) {
    case ArgumentKind::kOpenHow:
      return kOpenHowFields;
    case ArgumentKind::kCloneArgs:
      return kCloneArgsFields;
    case ArgumentKind::kMessage:
    case ArgumentKind::kReceivedMessage:
      return kMessageFields;
    case ArgumentKind::kMessages:
      return kMessagesFields;
    case ArgumentKind::kIoctlArgument:
      return kIoctlFields;
    default:
      return {};
  }
}

const SystemCallInfo* FindSystemCall(SystemAbi abi, uint64_t number) {
  static const CallTable& table = *new CallTable;
  return abi == SystemAbi::kX86_64 ? table.Find(number) : nullptr;
}

std::string SystemCallName(SystemAbi abi, uint64_t number) {
  const SystemCallInfo* info = FindSystemCall(abi, number);
  if (info != nullptr) return std::string(info->name);
  std::string_view kind = "system call ";
  if (abi == SystemAbi::kI386) kind = "32-bit call ";
  if (abi == SystemAbi::kX32) kind = "x32 call ";
  return std::string(kind) + std::to_string(number);
}

std::optional<uint16_t> RestartedCall(SystemAbi abi, std::string_view kernel_function) {
  // A sleep's own functions may be left out as those of the scheduler; then `kernel_function` is
  // one of their callers.
  constexpr std::pair<std::string_view, std::string_view> kRestarted[] = {
      {"futex", "futex"},
      {"poll", "poll"},
      {"nanosleep", "clock_nanosleep"},
      {"restart_syscall", "clock_nanosleep"},
      {"do_syscall", "clock_nanosleep"},
      {"fast_syscall", "clock_nanosleep"}};
  for (const auto& [part, name] : kRestarted) {
    if (kernel_function.find(part) == std::string_view::npos) continue;
    for (uint16_t number = 0; number < kSystemCallNumbers; ++number) {
      const SystemCallInfo* info = FindSystemCall(abi, number);
      if (info != nullptr && info->name == name) return number;
    }
  }
  return std::nullopt;
}

WaitReason ReasonOfCall(SystemAbi abi, int32_t number) {
  if (number < 0) return WaitReason::kOther;
  const SystemCallInfo* info = FindSystemCall(abi, static_cast<uint64_t>(number));
  return info == nullptr ? WaitReason::kOther : info->wait_reason;
}

std::string ErrnoName(int number) {
  if (number > 0) {
    const uint64_t wanted = static_cast<uint64_t>(number);
    std::string_view name = NameOf(kErrnoNames, wanted);
    if (name.empty()) name = NameOf(kKernelErrnoNames, wanted);
    if (!name.empty()) return std::string(name);
  }
  return "errno " + std::to_string(number);
}

std::string SignalName(int number) {
  if (number > 0) {
    const std::string_view name = NameOf(kSignalNames, static_cast<uint64_t>(number));
    if (!name.empty()) return std::string(name);
    if (number >= kFirstRealTimeSignal && number <= kSignals) {
      return "SIGRT_" + std::to_string(number - kFirstRealTimeSignal);
    }
  }
  return std::to_string(number);
}

std::string RequestName(uint32_t opcode) {
  const std::string_view name = NameOf(kRequestNames, opcode);
  if (!name.empty()) return std::string(name);
  return "request " + std::to_string(opcode);
}

}  // namespace proftrace
